package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/util/cert"

	"github.com/mooring-ccm/mooring/dev/bmc/redfishsim"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
)

const (
	// reserve is the node group of the machine that sleeps.
	reserve = "reserve"
	// autoscalerPort is where the replica that leads serves the Cluster Autoscaler, and autoscalerTimeout how long that waits for an answer.
	autoscalerPort, autoscalerTimeout = "8086", 5 * time.Second
)

// wake has the Cluster Autoscaler ask for a machine. The demo makes the autoscaler's calls in its place.
func (r *rack) wake() section {
	return section{name: "wake", title: "A machine wakes", steps: []step{
		{
			name: "asleep", title: "a machine of the inventory is off, and is no node; its group may grow by it", deadline: stepDeadline,
			run: r.awaitAsleep,
		},
		{
			name: "power", title: "the Cluster Autoscaler asks for one more: its management controller turns the machine on", deadline: stepDeadline,
			run: r.turnOn,
		},
		{name: "node", title: "it joins as a node, with what the inventory says of it", deadline: stepDeadline, run: r.awaken},
		{name: "served", title: "the router sends it requests, and all are answered", deadline: stepDeadline, run: r.awaitWider},
	}}
}

// systemUUID is what the firmware of a machine says, which the stand-in of a kubelet makes of the node's name.
func (m *machine) systemUUID() string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(m.name)).String()
}

// writeCertificates writes the files of the autoscaler's server. Its clients present certificates of the control plane's authority, which signs the
// certificates of every identity in the demo.
func (r *rack) writeCertificates(s *environment) error {
	addresses := []net.IP{replica4.AsSlice(), replica4.Next().AsSlice()}
	certificate, key, err := cert.GenerateSelfSignedCertKey("mooring-autoscaler", addresses, nil)
	if err != nil {
		return fmt.Errorf("make the certificate of the autoscaler's server: %w", err)
	}
	admin := s.cluster.AdminConfig()
	for path, content := range map[string][]byte{"autoscaler.crt": certificate, "autoscaler.key": key, "autoscaler-clients.crt": admin.CAData} {
		if err := os.WriteFile(s.path(path), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// autoscalerFlags are those of the autoscaler's server of a replica.
func (r *rack) autoscalerFlags(s *environment, address netip.Addr) []string {
	return []string{
		"--controllers=*,cluster-autoscaler-provider", "--autoscaler-bind-address=" + address.String(), "--autoscaler-port=" + autoscalerPort,
		"--autoscaler-tls-cert-file=" + s.path("autoscaler.crt"), "--autoscaler-tls-private-key-file=" + s.path("autoscaler.key"),
		"--autoscaler-client-ca-file=" + s.path("autoscaler-clients.crt"),
	}
}

// asAutoscaler makes calls as the Cluster Autoscaler does, to the replica that leads.
func (r *rack) asAutoscaler(ctx context.Context, s *environment, call func(context.Context, externalgrpc.CloudProviderClient) error) error {
	identity, err := s.cluster.UserConfig("cluster-autoscaler")
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(identity.CertData, identity.KeyData)
	if err != nil {
		return fmt.Errorf("the certificate of the autoscaler: %w", err)
	}
	authority, err := os.ReadFile(s.path("autoscaler.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	place, err := r.place(s, s.leader)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(net.JoinHostPort(place.address.Addr().String(), autoscalerPort), grpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})))
	if err != nil {
		return fmt.Errorf("connect as the autoscaler: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, autoscalerTimeout)
	defer cancel()
	return errors.Join(call(ctx, externalgrpc.NewCloudProviderClient(connection)), connection.Close())
}

// sizeOf returns how many machines of the group are to be awake, as a round of the autoscaler learns it.
func sizeOf(ctx context.Context, client externalgrpc.CloudProviderClient) (size, most int32, err error) {
	if _, err := client.Refresh(ctx, &externalgrpc.RefreshRequest{}); err != nil {
		return 0, 0, err
	}
	groups, err := client.NodeGroups(ctx, &externalgrpc.NodeGroupsRequest{})
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(groups.GetNodeGroups(), func(g *externalgrpc.NodeGroup) bool { return g.GetId() == reserve })
	if i < 0 {
		return 0, 0, fmt.Errorf("the groups are %v, without %q", groups.GetNodeGroups(), reserve)
	}
	target, err := client.NodeGroupTargetSize(ctx, &externalgrpc.NodeGroupTargetSizeRequest{Id: reserve})
	return target.GetTargetSize(), groups.GetNodeGroups()[i].GetMaxSize(), err
}

func (r *rack) awaitAsleep(ctx context.Context, s *environment) (string, error) {
	var most int32
	err := awaitCloud(ctx, func() error {
		return r.asAutoscaler(ctx, s, func(ctx context.Context, client externalgrpc.CloudProviderClient) error {
			size, maximum, err := sizeOf(ctx, client)
			if most = maximum; err == nil && size != 0 {
				err = fmt.Errorf("the group %q has the size %d", reserve, size)
			}
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; the group %q has 0 of %d", r.sleeper.name, reserve, most), nil
}

func (r *rack) turnOn(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	err := r.asAutoscaler(ctx, s, func(ctx context.Context, client externalgrpc.CloudProviderClient) error {
		_, err := client.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: reserve, Delta: 1})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("increase the group %q: %w", reserve, err)
	}
	err = awaitCloud(ctx, func() error {
		if power := r.bmc.Power(r.sleeper.id); power != redfishsim.On {
			return fmt.Errorf("%s is %s", r.sleeper.name, power)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is on after %s, by Redfish", r.sleeper.name, seconds(time.Since(began))), nil
}

// awaken starts what runs on a machine that has booted.
func (r *rack) awaken(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	if err := s.registerNode(ctx, r.sleeper.name, r.sleeper.v4, r.sleeper.v6); err != nil {
		return "", err
	}
	if err := r.startProxy(s, r.sleeper); err != nil {
		return "", err
	}
	err := s.observed.await(ctx, func(v view) error { return asTheInventorySays(v.nodes[r.sleeper.name], r.sleeper) })
	if err != nil {
		return "", errors.Join(err, s.warning(r.sleeper.name))
	}
	return fmt.Sprintf("%s after %s", "metal://"+r.sleeper.id, seconds(time.Since(began))), nil
}

// awaitWider waits until requests for the Service with policy Cluster go to the machine, too. The other one has no pod on it.
func (r *rack) awaitWider(ctx context.Context, _ *environment) (string, error) {
	wider := append(slices.Clone(r.living()), r.sleeper)
	if err := r.awaitTable(ctx, func(table netlab.Table) error { return r.spreadOf(r.cluster, table, wider) }); err != nil {
		return "", err
	}
	for _, e := range r.all() {
		if _, err := e.sent.awaitAnswers(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s goes to %d nodes", r.cluster.name, len(wider)), nil
}
