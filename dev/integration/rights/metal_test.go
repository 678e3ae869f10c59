package rights_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// machines is an inventory that the manager follows, and the files of the machines' power.
type machines struct {
	dir string
	// network begins the addresses of all machines, and kind is their type.
	network, kind string
}

// newMetalScenario is newScenario with the provider metal: pools for namespaces by their label, a router that does not answer, and the
// machines of these names, if there are any.
func newMetalScenario(t *testing.T, w way, names ...string) (*scenario, machines) {
	t.Helper()
	s := newScenario(t, w.rights, w.apiServerArgs...)
	s.ready = "/livez" // routers have to have the table before a replica is ready
	m := machines{dir: t.TempDir(), network: "10.0.0.", kind: "r640"}
	m.write(t, names...)
	s.delegate()
	s.args = slices.Concat(s.args, []string{"--cloud-provider=metal", "--cloud-config=" + filepath.Join(m.dir, "cloud.yaml"), "--cluster-cidr=10.244.0.0/16"},
		nodeFlags, nodeLifecycleFlags, serviceFlags, w.args)
	return s, m
}

// write writes the cloud config with these machines.
func (m machines) write(t *testing.T, names ...string) {
	t.Helper()
	var text strings.Builder
	text.WriteString(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
pools:
- {name: public, addresses: [192.0.2.0/28], namespaceSelector: {matchLabels: {quay: open}}}
announcement: {podRoutes: false}
bgp: {asn: 64512, peers: [{name: rack, address: 127.0.0.1, port: 1, asn: 64512}]}
power: {interval: 1s, timeout: 1s, outOfService: {enabled: true, after: 1s}}
`)
	if len(names) > 0 {
		fmt.Fprintf(&text, "inventory:\n  defaults: {machineType: %s}\n  machines:\n", m.kind)
	}
	for _, name := range names {
		if _, err := os.Stat(m.power(name)); err != nil {
			m.turn(t, name, "on")
		}
		fmt.Fprintf(&text, "  - {name: %s, addresses: [{address: %s}], bmc: {allowUnverified: true, command: {argv: [/bin/cat, %s]}}}\n",
			name, m.network+strings.TrimPrefix(name, "m"), m.power(name))
	}
	replace(t, filepath.Join(m.dir, "cloud.yaml"), text.String())
}

func (m machines) power(name string) string { return filepath.Join(m.dir, "power-"+name) }

// turn sets the power state that a machine's management controller says.
func (m machines) turn(t *testing.T, name, state string) {
	t.Helper()
	replace(t, m.power(name), state+"\n")
}

// replace writes a file in one step: no reader gets half of it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	must.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.NoError(t, os.Rename(path+".new", path))
}

// playMetal makes every part of the provider metal work.
func playMetal(t *testing.T, w way) *scenario {
	s, m := newMetalScenario(t, w, "m1", "m2", "m3", "m4")
	s.run(t, managerStarts(), servingSteps(), machineSteps(m), addressSteps(), handOverSteps(), podSteps())
	return s
}

// playLoadBalancersOnly assigns addresses to Services without managing nodes.
func playLoadBalancersOnly(t *testing.T, w way) *scenario {
	s, _ := newMetalScenario(t, w)
	s.run(t, managerStarts(), servingSteps(), addressSteps(), handOverSteps(), podSteps())
	return s
}

// machineSteps are what becomes of machines.
func machineSteps(m machines) []step {
	return []step{
		{"machines join and are initialized", func(t *testing.T, s *scenario) {
			for _, name := range []string{"m1", "m2", "m3", "m4"} {
				s.join(t, name)
			}
		}},
		{"machines get other addresses and another type", func(t *testing.T, s *scenario) {
			m := machines{dir: m.dir, network: "10.0.1.", kind: "r650"}
			m.write(t, "m1", "m2", "m3", "m4")
			s.awaitNode(t, "m1", "shows its own", func(node *corev1.Node) error {
				if !slices.Contains(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.1.1"}) {
					return fmt.Errorf("addresses %v", node.Status.Addresses)
				}
				if node.Labels[corev1.LabelInstanceTypeStable] != "r650" {
					return fmt.Errorf("labels %v", node.Labels)
				}
				return nil
			})
		}},
		{"a machine is turned off, its volumes are released, and it is turned on", func(t *testing.T, s *scenario) {
			m.turn(t, "m1", "off")
			s.report(t, "m1", corev1.ConditionUnknown)
			s.awaitTaint(t, "m1", corev1.TaintNodeOutOfService, true)
			s.awaitShutdownTaint(t, "m1", true)
			m.turn(t, "m1", "on")
			s.report(t, "m1", corev1.ConditionTrue)
			s.awaitShutdownTaint(t, "m1", false)
			s.awaitTaint(t, "m1", corev1.TaintNodeOutOfService, false)
		}},
		// The record of deletions is created for the first, and updated for the second. Of four nodes the limit allows half.
		{"machines are taken out of the inventory, and their nodes are deleted", func(t *testing.T, s *scenario) {
			for _, left := range [][]string{{"m1", "m2", "m3"}, {"m1", "m2"}} {
				gone := fmt.Sprint("m", len(left)+1)
				m.write(t, left...)
				s.report(t, gone, corev1.ConditionUnknown)
				poll.Until(t, "node "+gone+" is deleted", func(ctx context.Context) error {
					_, err := s.admin.CoreV1().Nodes().Get(ctx, gone, metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						return nil
					}
					return fmt.Errorf("it is there: %w", err)
				})
			}
		}},
	}
}

// addressSteps are what becomes of Services. There are two namespaces, so a right to one of them would not do.
func addressSteps() []step {
	services := []types.NamespacedName{{Namespace: "harbor", Name: "pier"}, {Namespace: "marina", Name: "quay"}}
	return []step{
		{"services get addresses, for which a label of their namespace is read", func(t *testing.T, s *scenario) {
			for _, service := range services {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: service.Namespace, Labels: map[string]string{"quay": "open"}}}
				_, err := s.admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
				must.NoError(t, err)
				s.expose(t, service)
			}
			s.awaitRecord(t)
		}},
		{"services say that no node serves them", func(t *testing.T, s *scenario) {
			for _, service := range services {
				poll.Until(t, "service "+service.String()+" has the condition of its announcement", func(ctx context.Context) error {
					found, err := s.admin.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
					if err == nil && len(found.Status.Conditions) < 2 {
						err = fmt.Errorf("its conditions are %v", found.Status.Conditions)
					}
					return err
				})
			}
		}},
		{"an event is repeated", func(t *testing.T, s *scenario) {
			patch := []byte(`[{"op": "replace", "path": "/spec/ports/0/port", "value": 8080}]`)
			_, err := s.admin.CoreV1().Services("harbor").Patch(t.Context(), "pier", types.JSONPatchType, patch, metav1.PatchOptions{})
			must.NoError(t, err)
			s.awaitEvent(t, "pier", "EnsuringLoadBalancer", 2)
			s.awaitRecord(t)
		}},
		{"services are deleted", func(t *testing.T, s *scenario) {
			for _, service := range services {
				must.NoError(t, s.admin.CoreV1().Services(service.Namespace).Delete(t.Context(), service.Name, metav1.DeleteOptions{}))
			}
			s.awaitReleased(t, services...)
		}},
	}
}

// awaitTaint waits until a node has a taint with this key, or has none.
func (s *scenario) awaitTaint(t *testing.T, node, key string, want bool) {
	t.Helper()
	s.awaitNode(t, node, fmt.Sprintf("has the taint %s: %t", key, want), func(node *corev1.Node) error {
		if has := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key }); has != want {
			return fmt.Errorf("its taints are %v", node.Spec.Taints)
		}
		return nil
	})
}
