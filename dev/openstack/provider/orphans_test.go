package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
	"github.com/mooring-ccm/mooring/vendortool"
)

// orphans leaves load balancers behind: one of a Service that is gone, one of another cluster of the same name, and one that a person made.
func (w *project) orphans(t *testing.T) {
	s := w.harbor
	kubernetes, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must.NoError(t, err)
	gone := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "gone"}
	name := s.balancerName(gone.Name)
	owned := func(cluster types.UID) []string {
		return []string{name, model.ClusterTag(s.name), model.Owner{ClusterUID: cluster, UID: uuid.NewUUID(), Service: gone}.Tag()}
	}
	w.plant(t, name, owned(kubernetes.UID)...)
	w.plant(t, name, owned("another-cluster")...)
	w.plant(t, "by-hand")
	if diff := cmp.Diff([]orphan{{Name: name, Proven: true}}, s.findOrphans(t)); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	s.findOrphans(t, "--remove", "--yes")
	until(t, "the orphan is gone, and nothing else", func(ctx context.Context) error {
		found, err := s.balancersOf(ctx, gone.Name)
		if err == nil && (len(found) != 1 || found[0].ProvisioningStatus != "ACTIVE") {
			err = fmt.Errorf("there are %+v, want the load balancer of the other cluster", found)
		}
		return err
	})
}

// plant makes a load balancer, and waits until it is ACTIVE.
func (w *project) plant(t *testing.T, name string, tags ...string) {
	t.Helper()
	client := w.environment.Clients().LoadBalancer
	made, err := loadbalancers.Create(t.Context(), client, loadbalancers.CreateOpts{
		Name: name, Provider: "ovn", VipSubnetID: w.environment.Subnet, Tags: tags,
	}).Extract()
	must.NoError(t, err)
	until(t, name+" is ACTIVE", func(ctx context.Context) error {
		found, err := loadbalancers.Get(ctx, client, made.ID).Extract()
		if err == nil && found.ProvisioningStatus != "ACTIVE" {
			err = fmt.Errorf("it is %s", found.ProvisioningStatus)
		}
		return err
	})
}

// orphan is a load balancer that the command found, and whether it is the cluster's beyond doubt.
type orphan struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"`
}

// findOrphans runs the command orphans, and returns what it finds.
func (s *site) findOrphans(t *testing.T, flags ...string) []orphan {
	t.Helper()
	var out, progress bytes.Buffer
	command := vendortool.NewOrphans()
	command.SetArgs(append([]string{
		"--cloud-provider=openstack", "--cloud-config=" + s.config, "--kubeconfig=" + s.cluster.AdminKubeconfig(), "--cluster-name=" + s.name,
		"--output=json",
	}, flags...))
	command.SetOut(&out)
	command.SetErr(&progress)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("orphans: %v\n%s", err, progress.String())
	}
	var findings struct {
		LoadBalancers []orphan `json:"loadBalancers"`
	}
	must.NoError(t, json.Unmarshal(out.Bytes(), &findings))
	return findings.LoadBalancers
}

// balancers returns all load balancers of the project.
func (w *project) balancers(ctx context.Context) ([]loadbalancers.LoadBalancer, error) {
	pages, err := loadbalancers.List(w.environment.Clients().LoadBalancer, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return loadbalancers.ExtractLoadBalancers(pages)
}

// end deletes all Services. What is left in the project is what no Service of these clusters had.
func (w *project) end(t *testing.T) {
	for _, s := range []*site{w.harbor, w.pier} {
		services := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault)
		list, err := services.List(t.Context(), metav1.ListOptions{LabelSelector: "!component"}) // which the API server's own has
		must.NoError(t, err)
		for _, service := range list.Items {
			must.NoError(t, services.Delete(t.Context(), service.Name, metav1.DeleteOptions{}))
		}
	}
	for _, s := range []*site{w.harbor, w.pier} {
		until(t, "the Services of "+s.name+" are gone", func(ctx context.Context) error {
			list, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "!component"})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%s is there: %s", list.Items[0].Name, saysOf(&list.Items[0]))
			}
			return err
		})
	}
	left, err := w.balancers(t.Context())
	must.NoError(t, err)
	var names []string
	for _, lb := range left {
		names = append(names, lb.Name)
	}
	want := []string{"by-hand", w.harbor.balancerName("gone")}
	if diff := cmp.Diff(want, names, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("load balancers that are left (-want +got):\n%s", diff)
	}
	pages, err := floatingips.List(w.environment.Clients().Network, nil).AllPages(t.Context())
	must.NoError(t, err)
	addresses, err := floatingips.ExtractFloatingIPs(pages)
	must.NoError(t, err)
	if len(addresses) > 0 {
		t.Errorf("floating IPs are left: %+v", addresses)
	}
}
