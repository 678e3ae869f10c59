package octaviatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Upstream makes load balancers in the shape in which cloud-provider-openstack makes them, one object after the other, and finds them as it
// does. It works on Octavia as on a Cloud. What is said of upstream is of its file pkg/openstack/loadbalancer.go at c453fb7.
type Upstream struct{ Octavia, Neutron *gophercloud.ServiceClient }

// UpstreamService is a Service of upstream's manager. Owner is the ID of another's load balancer that it shares, by the annotation
// load-balancer-id; empty for one of its own.
type UpstreamService struct {
	Cluster                                    string
	Service                                    *v1.Service
	Owner, Driver, SubnetID, FloatingNetworkID string
	// Members are the addresses of nodes by their names.
	Members map[string]string
	// Monitors says that members are probed.
	Monitors bool
}

// Name is the name of the load balancer and the tag of all that is the Service's: getLoadBalancerName.
func (s UpstreamService) Name() string {
	return fmt.Sprintf("kube_service_%s_%s_%s", s.Cluster, s.Service.Namespace, s.Service.Name)
}

// Shape is what of a Service's load balancer upstream's manager finds, with the IDs: what was made again has others.
type Shape struct {
	ID, VIP, FloatingIP, FloatingID string
	Listeners                       []ListenerShape
}

// ListenerShape is a listener with what is behind it.
type ListenerShape struct{ ID, Name, PoolID, PoolName, MonitorID, MonitorName, Members string }

// Make makes the load balancer of a Service, or in another's what the Service has there.
func (u Upstream) Make(ctx context.Context, s UpstreamService) (Shape, error) {
	name, id := s.Name(), s.Owner
	described := fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", s.Service.Namespace, s.Service.Name, s.Cluster)
	if id == "" { // createOctaviaLoadBalancer
		lb, err := loadbalancers.Create(ctx, u.Octavia, loadbalancers.CreateOpts{Name: name, Description: described, Provider: s.Driver,
			VipSubnetID: s.SubnetID, Tags: []string{name}}).Extract()
		if err != nil {
			return Shape{}, err
		}
		id = lb.ID
	} else { // ensureOctaviaLoadBalancer
		lb, err := u.active(ctx, id)
		if err != nil {
			return Shape{}, err
		}
		tags := append(lb.Tags, name)
		if _, err := loadbalancers.Update(ctx, u.Octavia, id, loadbalancers.UpdateOpts{Tags: &tags}).Extract(); err != nil {
			return Shape{}, err
		}
	}
	for index, port := range s.Service.Spec.Ports {
		if err := u.makeListener(ctx, s, id, index, port); err != nil {
			return Shape{}, err
		}
	}
	lb, err := u.active(ctx, id)
	if err != nil {
		return Shape{}, err
	}
	if s.Owner == "" { // ensureFloatingIP
		_, err := floatingips.Create(ctx, u.Neutron, floatingips.CreateOpts{FloatingNetworkID: s.FloatingNetworkID, PortID: lb.VipPortID,
			Description: "Floating IP for " + described}).Extract()
		if err != nil {
			return Shape{}, err
		}
	}
	return u.Find(ctx, s)
}

// makeListener makes a listener, its pool with members and its monitor: ensureOctaviaListener, ensureOctaviaPool, ensureOctaviaHealthMonitor.
func (u Upstream) makeListener(ctx context.Context, s UpstreamService, id string, index int, port v1.ServicePort) error {
	name := s.Name()
	if _, err := u.active(ctx, id); err != nil {
		return err
	}
	listener, err := listeners.Create(ctx, u.Octavia, listeners.CreateOpts{Name: fmt.Sprintf("listener_%d_%s", index, name),
		LoadbalancerID: id, Protocol: listeners.Protocol(port.Protocol), ProtocolPort: int(port.Port), Tags: []string{name}}).Extract()
	if err != nil {
		return err
	}
	if _, err := u.active(ctx, id); err != nil {
		return err
	}
	method := pools.LBMethodRoundRobin
	if s.Driver == "ovn" {
		method = pools.LBMethodSourceIpPort
	}
	pool, err := pools.Create(ctx, u.Octavia, pools.CreateOpts{Name: fmt.Sprintf("pool_%d_%s", index, name), Protocol: pools.Protocol(port.Protocol),
		LBMethod: method, ListenerID: listener.ID}).Extract()
	if err != nil {
		return err
	}
	var members []pools.BatchUpdateMemberOpts
	for node, address := range s.Members {
		members = append(members, pools.BatchUpdateMemberOpts{Name: &node, Address: address, ProtocolPort: int(port.NodePort), SubnetID: &s.SubnetID})
	}
	if _, err := u.active(ctx, id); err != nil {
		return err
	}
	if err := pools.BatchUpdateMembers(ctx, u.Octavia, pool.ID, members).ExtractErr(); err != nil || !s.Monitors {
		return err
	}
	if _, err := u.active(ctx, id); err != nil {
		return err
	}
	_, err = monitors.Create(ctx, u.Octavia, monitors.CreateOpts{Name: fmt.Sprintf("monitor_%d_%s", index, name), PoolID: pool.ID,
		Type: string(port.Protocol), Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}).Extract()
	return err
}

// active waits until nothing changes a load balancer: waitLoadbalancerActive.
func (u Upstream) active(ctx context.Context, id string) (lb *loadbalancers.LoadBalancer, err error) {
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if lb, err = loadbalancers.Get(ctx, u.Octavia, id).Extract(); err != nil {
			return false, err
		}
		if lb.ProvisioningStatus == "ERROR" {
			return false, errors.New("its status does not change by itself")
		}
		return lb.ProvisioningStatus == "ACTIVE", nil
	})
	if err != nil && lb != nil {
		return nil, fmt.Errorf("load balancer %s is %s: %w", id, lb.ProvisioningStatus, err)
	}
	return lb, err
}

// Find finds the load balancer of a Service as upstream's manager does when it takes it up: the one by its name (getLoadbalancerByName) or by
// its ID, with the Service's tag; for each port the listener of that protocol and port with the Service's tag (checkListenerPorts); the one
// pool of that listener (GetPoolByListener of pkg/util/openstack/loadbalancer.go), its monitor and its members; and the floating IP by the
// port of the VIP (ensureFloatingIP), with the description by which it is deleted (deleteFIPIfCreatedByProvider).
func (u Upstream) Find(ctx context.Context, s UpstreamService) (Shape, error) {
	lb, err := u.balancer(ctx, s)
	if err != nil {
		return Shape{}, err
	}
	if !slices.Contains(lb.Tags, s.Name()) {
		return Shape{}, fmt.Errorf("load balancer %s has no tag %s, but %q", lb.ID, s.Name(), lb.Tags)
	}
	shape := Shape{ID: lb.ID, VIP: lb.VipAddress}
	attached, err := floatingips.List(u.Neutron, floatingips.ListOpts{PortID: lb.VipPortID}).AllPages(ctx)
	if err != nil {
		return shape, err
	}
	addresses, err := floatingips.ExtractFloatingIPs(attached)
	if err != nil || len(addresses) != 1 {
		return shape, errors.Join(err, fmt.Errorf("there are %d floating IPs at the port of the VIP", len(addresses)))
	}
	shape.FloatingIP, shape.FloatingID = addresses[0].FloatingIP, addresses[0].ID+" "+addresses[0].Description
	for _, port := range s.Service.Spec.Ports {
		listener, err := u.listener(ctx, s, lb.ID, port)
		if err != nil {
			return shape, err
		}
		shape.Listeners = append(shape.Listeners, listener)
	}
	return shape, nil
}

func (u Upstream) balancer(ctx context.Context, s UpstreamService) (*loadbalancers.LoadBalancer, error) {
	if s.Owner != "" {
		return u.active(ctx, s.Owner)
	}
	pages, err := loadbalancers.List(u.Octavia, loadbalancers.ListOpts{Name: s.Name()}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	found, err := loadbalancers.ExtractLoadBalancers(pages)
	if err != nil || len(found) != 1 {
		return nil, errors.Join(err, fmt.Errorf("%d load balancers have the name %s", len(found), s.Name()))
	}
	return u.active(ctx, found[0].ID)
}

func (u Upstream) listener(ctx context.Context, s UpstreamService, id string, port v1.ServicePort) (ListenerShape, error) {
	pages, err := listeners.List(u.Octavia, listeners.ListOpts{LoadbalancerID: id}).AllPages(ctx)
	if err != nil {
		return ListenerShape{}, err
	}
	found, err := listeners.ExtractListeners(pages)
	if err != nil {
		return ListenerShape{}, err
	}
	index := slices.IndexFunc(found, func(l listeners.Listener) bool {
		return l.Protocol == string(port.Protocol) && l.ProtocolPort == int(port.Port)
	})
	if index < 0 || !slices.Contains(found[index].Tags, s.Name()) {
		return ListenerShape{}, fmt.Errorf("load balancer %s has no listener for port %d with the tag %s", id, port.Port, s.Name())
	}
	shape := ListenerShape{ID: found[index].ID, Name: found[index].Name, PoolID: found[index].DefaultPoolID}
	pool, err := pools.Get(ctx, u.Octavia, shape.PoolID).Extract()
	if err != nil {
		return shape, err
	}
	shape.PoolName, shape.MonitorID = pool.Name, pool.MonitorID
	if pool.MonitorID != "" {
		monitor, err := monitors.Get(ctx, u.Octavia, pool.MonitorID).Extract()
		if err != nil {
			return shape, err
		}
		shape.MonitorName = monitor.Name
	}
	behind, err := pools.ListMembers(u.Octavia, pool.ID, nil).AllPages(ctx)
	if err != nil {
		return shape, err
	}
	members, err := pools.ExtractMembers(behind)
	var texts []string
	for _, member := range members { // as ensureOctaviaPool compares them, with the ID
		texts = append(texts, fmt.Sprintf("%s %s-%s-%d-%d", member.ID, member.Name, member.Address, member.ProtocolPort, member.MonitorPort))
	}
	slices.Sort(texts)
	shape.Members = fmt.Sprint(texts)
	return shape, err
}
