package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

// The draws of the mutants have these objects and times.
const (
	healthy, silent, excluded = "node-01", "node-00", "node-02"
	left                      = "node-07"
	whileSilent               = 5*time.Minute + 80*time.Second
)

// mutantDraw draws a small cluster with a plain plugin, in which an instance is deleted, a port changes, a node is excluded, and a kubelet is silent.
func mutantDraw(seed uint64) draw.Draw {
	d := draw.New(seed)
	d.Plugin.Characters = nil
	d.Nodes, d.Services = d.Nodes[:8], d.Services[:1]
	for i := range d.Nodes {
		d.Nodes[i] = draw.Node{Name: d.Nodes[i].Name}
	}
	d.Services[0].Created = 0
	d.Events = []draw.Event{
		{At: 2 * time.Minute, Kind: draw.Leave, Object: left},
		{At: 3 * time.Minute, Kind: draw.PortChange, Object: d.Services[0].Name, Number: 8000},
		{At: 4 * time.Minute, Kind: draw.Exclude, Object: excluded},
		{At: 5 * time.Minute, Kind: draw.Silent, Object: silent, For: 2 * time.Minute},
	}
	return d
}

// mutant is a mistake of the manager.
type mutant struct {
	name string
	// breaks are the rules that find the mistake. The rules in also may find it too, because one mistake has several consequences.
	breaks, also []string
	wrapper      managers.Wrapper
}

// TestMutants makes Mooring wrong in one way after the other. The rule that the mistake breaks finds it within few draws, and finds nothing in
// the same draw without the mistake.
func TestMutants(t *testing.T) {
	const few = 3
	type pair struct{ reference, mooring double.Record }
	pairs := make([]func() pair, few)
	for i := range pairs {
		pairs[i] = sync.OnceValue(func() pair {
			d := mutantDraw(uint64(i + 1))
			return pair{must.Value(run.Simulate(t, d, managers.Reference))(t), must.Value(run.Simulate(t, d, managers.Mooring))(t)}
		})
	}
	found := map[string]bool{}
	for _, one := range mutants() {
		for _, rule := range one.breaks {
			found[rule] = true
		}
		t.Run(one.name, func(t *testing.T) {
			program := managers.Mooring.Wrapped("mutant", one.wrapper)
			for i := range few {
				d, pair := mutantDraw(uint64(i+1)), pairs[i]()
				// A rule that Mooring breaks without the mistake counts where it is broken for another object or in other words.
				key := func(finding rules.Finding) string {
					words := strings.Map(func(r rune) rune {
						if unicode.IsDigit(r) {
							return -1
						}
						return r
					}, finding.Text)
					return finding.Rule + " " + finding.Object + " " + words
				}
				without, known := map[string]bool{}, map[string]bool{}
				for _, finding := range run.Judge(d, pair.reference, pair.mooring).Findings {
					without[finding.Rule], known[key(finding)] = true, true
				}
				outcome := run.Judge(d, pair.reference, must.Value(run.Simulate(t, d, program))(t))
				outcome.Findings = slices.DeleteFunc(outcome.Findings, func(finding rules.Finding) bool { return known[key(finding)] })
				broken := outcome.Rules()
				if slices.ContainsFunc(one.breaks, func(rule string) bool { return !slices.Contains(broken, rule) }) {
					t.Logf("seed %d: found %v, want %v", d.Seed, broken, one.breaks)
					continue
				}
				for _, rule := range broken {
					if !without[rule] && !slices.Contains(one.breaks, rule) && !slices.Contains(one.also, rule) {
						t.Errorf("seed %d: rule %s is broken too:\n%v", d.Seed, rule, outcome.Findings)
					}
				}
				return
			}
			t.Errorf("not found in %d draws", few)
		})
	}
	for _, rule := range rules.Names {
		if !found[rule] {
			t.Errorf("no mutant breaks rule %s", rule)
		}
	}
}

// mutants has one or more for each rule.
func mutants() []mutant {
	return []mutant{
		{name: "the first question waits for half a minute", breaks: []string{"1"}, wrapper: instancesOf(func(i *wrongInstances, ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if i.calls == 1 {
				time.Sleep(30 * time.Second)
			}
			return i.InstancesV2.InstanceMetadata(ctx, node)
		})},
		{name: "a node that reports is deleted", breaks: []string{"2a-deleted", "2b-deleted"}, wrapper: request(3*time.Minute, func(send sender) {
			send(http.MethodDelete, "/api/v1/nodes/"+healthy, nil)
		})},
		{name: "a node that is Ready is tainted", breaks: []string{"2a-tainted"}, also: []string{"2b-tainted"}, wrapper: request(3*time.Minute, func(send sender) {
			send(http.MethodPatch, "/api/v1/nodes/"+healthy, taint(cloudproviderapi.TaintNodeShutdown))
		})},
		{name: "the denial of a silent node is invented", breaks: []string{"2b-deleted"}, also: []string{"7-count"}, wrapper: plugin(func(p *wrongPlugin) {
			p.exists = func(next cloudprovider.InstancesV2, ctx context.Context, node *corev1.Node) (bool, error) {
				exists, err := next.InstanceExists(ctx, node)
				return exists && node.Name != silent, err
			}
		})},
		{name: "a silent node is tainted without an answer", breaks: []string{"2b-tainted", "2b-untainted"}, wrapper: request(whileSilent, func(send sender) {
			send(http.MethodPatch, "/api/v1/nodes/"+silent, taint(cloudproviderapi.TaintNodeShutdown))
			send(http.MethodPatch, "/api/v1/nodes/"+silent, taint())
		})},
		{name: "nodes are not deleted", breaks: []string{"3", "13-gone"}, also: []string{"7-count", "6-events"}, wrapper: refuse(func(request *http.Request) bool {
			return request.Method == http.MethodDelete
		}, time.Hour)},
		{name: "a target is left out", breaks: []string{"4"}, also: []string{"13", "13-early", "6-events"}, wrapper: targets(func(_ map[string]*corev1.Node, nodes []*corev1.Node) []*corev1.Node {
			return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return node.Name == healthy })
		})},
		{name: "an excluded target stays", breaks: []string{"4-excluded"}, also: []string{"13", "13-early"}, wrapper: targets(func(seen map[string]*corev1.Node, nodes []*corev1.Node) []*corev1.Node {
			if stays := seen[excluded]; stays != nil && !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.Name == excluded }) {
				nodes = append(slices.Clone(nodes), stays.DeepCopy())
			}
			return nodes
		})},
		{name: "a load balancer is made anew", breaks: []string{"5-second", "5-deleted", "5-address"}, also: []string{"7-count"}, wrapper: plugin(func(p *wrongPlugin) {
			p.ensure = func(next cloudprovider.LoadBalancer, ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				if service.Spec.Ports[0].Port == 8000 && !p.done {
					p.done = true
					if err := next.EnsureLoadBalancerDeleted(ctx, cluster, service.DeepCopy()); err != nil {
						return nil, err
					}
				}
				return next.EnsureLoadBalancer(ctx, cluster, service, nodes)
			}
		})},
		{name: "a node is written ten times", breaks: []string{"6"}, wrapper: request(3*time.Minute, func(send sender) {
			for i := range 10 {
				send(http.MethodPatch, "/api/v1/nodes/"+healthy, annotation("mooring.dev/mutant", fmt.Sprint(i)))
			}
		})},
		{name: "a node has ten events", breaks: []string{"6-events"}, wrapper: request(3*time.Minute, func(send sender) {
			for i := range 10 {
				name := fmt.Sprintf("mutant-%d", i)
				send(http.MethodPost, "/api/v1/namespaces/default/events", map[string]any{
					"kind": "Event", "apiVersion": "v1", "metadata": map[string]any{"name": name, "namespace": "default"}, "reason": "Mutant", "type": "Normal",
					"involvedObject": map[string]any{"kind": "Node", "name": healthy}, "source": map[string]any{"component": "mutant"},
				})
			}
		})},
		{name: "a node that has settled is written", breaks: []string{"6-idle"}, wrapper: request(draw.Disturbed+3*time.Minute, func(send sender) {
			send(http.MethodPatch, "/api/v1/nodes/"+healthy, annotation("mooring.dev/mutant", "late"))
		})},
		{name: "a load balancer is looked at again and again", breaks: []string{"7-count"}, wrapper: plugin(func(p *wrongPlugin) {
			p.ensure = func(next cloudprovider.LoadBalancer, ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				status, err := next.EnsureLoadBalancer(ctx, cluster, service, nodes)
				for i := 0; i < 40 && !p.done; i++ {
					if _, _, err := next.GetLoadBalancer(ctx, cluster, service.DeepCopy()); err != nil {
						return nil, err
					}
				}
				p.done = true
				return status, err
			}
		})},
		{name: "three questions at the same time", breaks: []string{"7-overlap"}, also: []string{"8-repeated"}, wrapper: instancesOf(func(i *wrongInstances, ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if i.calls == 1 {
				var others sync.WaitGroup
				defer others.Wait()
				for _, name := range []string{"node-05", "node-06"} {
					others.Go(func() {
						other := node.DeepCopy()
						other.Name = name
						_, _ = i.InstancesV2.InstanceMetadata(ctx, other)
					})
				}
			}
			return i.InstancesV2.InstanceMetadata(ctx, node)
		})},
		{name: "a question is given up", breaks: []string{"8-ended"}, wrapper: instancesOf(func(i *wrongInstances, ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if i.calls == 1 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
			}
			return i.InstancesV2.InstanceMetadata(ctx, node)
		})},
		{name: "a question is asked twice at once", breaks: []string{"8-repeated"}, wrapper: instancesOf(func(i *wrongInstances, ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if i.calls == 1 {
				var other sync.WaitGroup
				defer other.Wait()
				other.Go(func() { _, _ = i.InstancesV2.InstanceMetadata(ctx, node.DeepCopy()) })
			}
			return i.InstancesV2.InstanceMetadata(ctx, node)
		})},
		{name: "two calls get the same node", breaks: []string{"9"}, wrapper: instancesOf(func(i *wrongInstances, ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if node.Name == healthy && i.kept == nil {
				i.kept = node
			} else if node.Name == healthy {
				node = i.kept
			}
			return i.InstancesV2.InstanceMetadata(ctx, node)
		})},
		{name: "an annotation of others is written", breaks: []string{"10"}, wrapper: request(3*time.Minute, func(send sender) {
			send(http.MethodPatch, "/api/v1/nodes/"+healthy, annotation("example.com/theirs", "ours"))
		})},
		{name: "the process ends", breaks: []string{"11"}, wrapper: managers.Wrapper{Plugin: func(process *managers.Incarnation, next cloudprovider.Interface) cloudprovider.Interface {
			time.AfterFunc(8*time.Minute, func() { process.Kill(errors.New("a mistake")) })
			return next
		}}, also: []string{"7-count"}},
		{name: "a node is told that it has no route", breaks: []string{"12"}, also: []string{"6", "6-idle", "13", "13-early"}, wrapper: request(3*time.Minute, func(send sender) {
			send(http.MethodPatch, "/api/v1/nodes/"+healthy+"/status", map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"},
			}}})
		})},
		{name: "no status of a Service is written", breaks: []string{"13"}, also: []string{"6", "6-events"}, wrapper: refuse(serviceStatus, time.Hour)},
		{name: "the status of a Service is written late", breaks: []string{"13-early"}, also: []string{"6-idle", "6-events"}, wrapper: refuse(serviceStatus, draw.Disturbed+4*time.Minute)},
		{name: "a port does not reach the plugin", breaks: []string{"13-port"}, also: []string{"13"}, wrapper: plugin(func(p *wrongPlugin) {
			p.ensure = func(next cloudprovider.LoadBalancer, ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
				service.Spec.Ports[0].Port = 80
				return next.EnsureLoadBalancer(ctx, cluster, service, nodes)
			}
		})},
	}
}

// serviceStatus reports whether a request writes the address of a Service.
func serviceStatus(request *http.Request) bool {
	if request.Method == http.MethodGet || !strings.HasSuffix(request.URL.Path, "/status") || !strings.Contains(request.URL.Path, "/services/") {
		return false
	}
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte("ingress"))
}

// taint is a patch of all taints of a node that the API server has not been told to be Ready when it was made.
func taint(keys ...string) map[string]any {
	taints := []any{}
	for _, key := range append([]string{corev1.TaintNodeNotReady}, keys...) {
		taints = append(taints, map[string]any{"key": key, "effect": "NoSchedule"})
	}
	return map[string]any{"spec": map[string]any{"taints": taints}}
}

func annotation(key, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// sender sends a request as the manager.
type sender func(method, path string, body map[string]any)

// roundTripper is a function as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// request has the first process of the manager send requests of its own at a time.
func request(at time.Duration, requests func(sender)) managers.Wrapper {
	return managers.Wrapper{Transport: func(next http.RoundTripper) http.RoundTripper {
		time.AfterFunc(at, func() {
			requests(func(method, path string, body map[string]any) {
				content, err := json.Marshal(body)
				if err != nil {
					panic(err)
				}
				request, err := http.NewRequestWithContext(context.Background(), method, "http://apiserver.invalid"+path, bytes.NewReader(content))
				if err != nil {
					panic(err)
				}
				request.Header.Set("Content-Type", map[string]string{http.MethodPatch: "application/strategic-merge-patch+json"}[method])
				if method != http.MethodPatch {
					request.Header.Set("Content-Type", "application/json")
				}
				response, err := next.RoundTrip(request)
				if err != nil {
					panic(err)
				}
				answer, _ := io.ReadAll(response.Body)
				if response.StatusCode >= http.StatusBadRequest && response.StatusCode != http.StatusNotFound {
					panic(fmt.Sprintf("%s %s: %s", method, path, answer))
				}
				_ = response.Body.Close()
			})
		})
		return next
	}}
}

// refuse answers requests of the manager with 500 for a time.
func refuse(which func(*http.Request) bool, until time.Duration) managers.Wrapper {
	return managers.Wrapper{Transport: func(next http.RoundTripper) http.RoundTripper {
		began := time.Now()
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if which(request) && time.Since(began) < until {
				return nil, errors.New("the connection was reset")
			}
			return next.RoundTrip(request)
		})
	}}
}

// wrongPlugin changes calls on their way to the plugin.
type wrongPlugin struct {
	cloudprovider.Interface
	instances func(cloudprovider.InstancesV2) cloudprovider.InstancesV2
	exists    func(cloudprovider.InstancesV2, context.Context, *corev1.Node) (bool, error)
	ensure    func(cloudprovider.LoadBalancer, context.Context, string, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error)
	targets   func(map[string]*corev1.Node, []*corev1.Node) []*corev1.Node
	seen      map[string]*corev1.Node
	done      bool
}

// plugin wraps the plugin of each process.
func plugin(change func(*wrongPlugin)) managers.Wrapper {
	return managers.Wrapper{Plugin: func(_ *managers.Incarnation, next cloudprovider.Interface) cloudprovider.Interface {
		p := &wrongPlugin{Interface: next, seen: map[string]*corev1.Node{}}
		change(p)
		return p
	}}
}

// targets changes the sets of targets.
func targets(change func(seen map[string]*corev1.Node, nodes []*corev1.Node) []*corev1.Node) managers.Wrapper {
	return plugin(func(p *wrongPlugin) { p.targets = change })
}

// instancesOf changes the questions about metadata.
func instancesOf(metadata func(*wrongInstances, context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)) managers.Wrapper {
	return plugin(func(p *wrongPlugin) {
		wrong := &wrongInstances{metadata: metadata}
		p.instances = func(next cloudprovider.InstancesV2) cloudprovider.InstancesV2 {
			wrong.InstancesV2 = next
			return wrong
		}
	})
}

type wrongInstances struct {
	cloudprovider.InstancesV2
	metadata func(*wrongInstances, context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)
	calls    int
	kept     *corev1.Node
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i *wrongInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.calls++
	return i.metadata(i, ctx, node)
}

// InstancesV2 implements cloudprovider.Interface.
func (p *wrongPlugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	next, has := p.Interface.InstancesV2()
	switch {
	case p.instances != nil:
		return p.instances(next), has
	case p.exists != nil:
		return wrongExists{next, p}, has
	}
	return next, has
}

type wrongExists struct {
	cloudprovider.InstancesV2
	plugin *wrongPlugin
}

// InstanceExists implements cloudprovider.InstancesV2.
func (i wrongExists) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return i.plugin.exists(i.InstancesV2, ctx, node)
}

// LoadBalancer implements cloudprovider.Interface.
func (p *wrongPlugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	next, has := p.Interface.LoadBalancer()
	return wrongBalancer{next, p}, has
}

type wrongBalancer struct {
	cloudprovider.LoadBalancer
	plugin *wrongPlugin
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b wrongBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if b.plugin.ensure != nil {
		return b.plugin.ensure(b.LoadBalancer, ctx, cluster, service, nodes)
	}
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, b.plugin.change(nodes))
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b wrongBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, b.plugin.change(nodes))
}

// change changes a set of targets.
func (p *wrongPlugin) change(nodes []*corev1.Node) []*corev1.Node {
	if p.targets == nil {
		return nodes
	}
	for _, node := range nodes {
		p.seen[node.Name] = node.DeepCopy()
	}
	return p.targets(p.seen, nodes)
}
