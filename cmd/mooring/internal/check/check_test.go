package check_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
)

// breaks are all that can be wrong: what is done to a healthy cluster, and the check that sees it.
var breaks = map[string]struct {
	edit      func(*check.Observation)
	check     string
	severity  check.State
	seen, do  string
	onObjects []string
}{
	"an old API server": {
		func(o *check.Observation) { o.Server.Value = "v1.33.0" }, "api-server", check.Warning, "is v1.33.0; this version is tested with v1.36.3", "libraries", nil,
	},
	"a kubelet without the flag": {
		func(o *check.Observation) { o.Nodes.Value = append(o.Nodes.Value, node("c", identified(""))) },
		"kubelets", check.Error, "1 node has neither a provider ID nor the taint", "--cloud-provider=external", []string{"c"},
	},
	"a cloud of kube-controller-manager's own": {
		func(o *check.Observation) { o.ControllerManagers.Value[0] = kcm("--cloud-provider", "aws") },
		"kube-controller-manager", check.Error, "--cloud-provider=aws", "remove", []string{"kube-controller-manager-a"},
	},
	"two ranges of pods": {
		func(o *check.Observation) {
			o.ControllerManagers.Value[0] = kcm("--cluster-cidr=10.0.0.0/8", "--allocate-node-cidrs")
		},
		"kube-controller-manager", check.Error, "--cluster-cidr=10.0.0.0/8, but the manager has --cluster-cidr=10.244.0.0/16", "set --cluster-cidr", nil,
	},
	"no controller allocates ranges of pods": {
		func(o *check.Observation) {
			o.ControllerManagers.Value[0] = kcm()
			o.Nodes.Value[0].Spec.PodCIDR = ""
		},
		"kube-controller-manager", check.Warning, "nodes without a pod CIDR get no route", "spec.podCIDR", nil,
	},
	"kube-proxy on loopback": {
		func(o *check.Observation) { o.KubeProxy.Value = proxy("127.0.0.1:10256") }, "kube-proxy", check.Error, "no other machine reaches it", "0.0.0.0:10256", nil,
	},
	"kube-proxy on loopback, with a manager that is not in the cluster": {
		func(o *check.Observation) {
			o.KubeProxy.Value, o.Workloads.Value = proxy("127.0.0.1"), nil
			o.Nodes.Value[0].Spec.ProviderID = "metal://a"
		},
		"kube-proxy", check.Error, "no other machine reaches it", "0.0.0.0:10256", nil,
	},
	"kube-proxy on another port": {
		func(o *check.Observation) { o.KubeProxy.Value = proxy(`"[::]:10999"`) }, "kube-proxy", check.Warning, "the port 10999", "kubeProxyPort: 10999", nil,
	},
	"an image that cannot be pulled": {
		func(o *check.Observation) { o.Pods.Value[1] = pod("b", waits("ImagePullBackOff")) },
		"pods", check.Error, `the image "cloud-controller-manager:1" cannot be pulled: ImagePullBackOff`, "imagePullSecrets", []string{"kube-system/b"},
	},
	"a pod that crashes": {
		func(o *check.Observation) { o.Pods.Value[1] = pod("b", waits("CrashLoopBackOff")) },
		"pods", check.Error, "CrashLoopBackOff; it ended with exit code 1: Error", "logs --previous b", nil,
	},
	"a pod without a node": {
		func(o *check.Observation) {
			o.Pods.Value[1].Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: ago(time.Hour),
			}}
		},
		"pods", check.Warning, "Unschedulable", "fewer replicas", nil,
	},
	"two versions": {
		func(o *check.Observation) { o.Pods.Value[1].Spec.Containers[0].Image = "cloud-controller-manager:2" },
		"pods", check.Warning, "cloud-controller-manager:1 (a); cloud-controller-manager:2 (b)", "rollout", nil,
	},
	"no pods wanted": {
		func(o *check.Observation) { o.Workloads.Value[0].Wanted = 0 }, "pods", check.Warning, "wants no pods", "scale", nil,
	},
	"no pod is ready": {
		func(o *check.Observation) { o.Workloads.Value[0].Ready, o.Pods.Value = 0, nil },
		"pods", check.Error, "Deployment kube-system/mooring has 0 of 2 pods ready", "describe deployment mooring", nil,
	},
	"a pod is not ready": {
		func(o *check.Observation) { o.Workloads.Value[0].Ready = 1 }, "pods", check.Warning, "has 1 of 2 pods ready", "events", nil,
	},
	"no lease": {
		func(o *check.Observation) { o.Leases.Value = o.Leases.Value[1:] }, "leader", check.Error, "no manager has ever led", "--lease", nil,
	},
	"a released lease": {
		func(o *check.Observation) { o.Leases.Value[0] = lease("cloud-controller-manager", "", 0) }, "leader", check.Error, "was released", "start", nil,
	},
	"a leader that is gone": {
		func(o *check.Observation) { o.Leases.Value[0] = lease("cloud-controller-manager", "a_1", time.Minute) },
		"leader", check.Error, "a_1 has not renewed the lease since 2026-11-22 11:59:00 UTC", "start", nil,
	},
	"a clock that is ahead": {
		func(o *check.Observation) { o.Leases.Value[0] = lease("cloud-controller-manager", "a_1", -time.Minute) },
		"leader", check.Warning, "1m0s from now", "NTP", nil,
	},
	"a right that lacks": {
		func(o *check.Observation) { o.Rights.Value[0].Allowed = false }, "rights", check.Error, "ServiceAccount kube-system/m may not list nodes", "rbac.yaml", nil,
	},
	"a right that is nice to have": {
		func(o *check.Observation) {
			o.Rights.Value[0].Allowed, o.Rights.Value[0].Optional = false, "no events are written"
		},
		"rights", check.Warning, "may not list nodes: no events are written", "rbac.yaml", nil,
	},
	"another manager": {
		func(o *check.Observation) {
			o.Workloads.Value = append(o.Workloads.Value, workload("other", managers.Flags{"cloud-provider": "aws", "leader-elect": "false"}))
		},
		"other-managers", check.Error, `Deployment kube-system/other runs ccm:other, with the cloud provider "aws"`, "several-ccms.md", []string{"Deployment kube-system/other"},
	},
	"another manager for other nodes": {
		func(o *check.Observation) {
			o.Schemes = []string{"sim"}
			o.Workloads.Value = append(o.Workloads.Value, workload("other", managers.Flags{"leader-elect-resource-name": "b"}))
		},
		"other-managers", check.Warning, "does not elect its leader by the same lease", "several-ccms.md", nil,
	},
	"the reference beside it": {
		func(o *check.Observation) { o.Workloads.Value = append(o.Workloads.Value, workload("reference", nil)) },
		"other-managers", check.Warning, "by one lease: Deployment kube-system/mooring, Deployment kube-system/reference", "migration", nil,
	},
	"another manager outside of the cluster": {
		func(o *check.Observation) {
			o.Leases.Value = append(o.Leases.Value, lease("aws-cloud-controller-manager", "z", time.Second), lease("cloud-controller-manager-node-deletions", "", 0))
		},
		"other-managers", check.Error, "z holds the Lease kube-system/aws-cloud-controller-manager", "stop it", nil,
	},
	"another manager with a lease of another name": {
		func(o *check.Observation) {
			other := lease("ours", "z", time.Second)
			other.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "cloud-controller-manager"}}
			o.Leases.Value = append(o.Leases.Value, other)
		},
		"other-managers", check.Error, "z holds the Lease kube-system/ours", "stop it", nil,
	},
	"another manager's writes": {
		func(o *check.Observation) {
			o.Nodes.Value[0].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "aws-cloud-controller-manager", Time: ptr.To(ago(time.Minute))}}
		},
		"other-managers", check.Warning, `"aws-cloud-controller-manager" has written 1 node within 1h0m0s`, "stop it", []string{"a"},
	},
	"nodes of two providers": {
		func(o *check.Observation) {
			o.Nodes.Value = append(o.Nodes.Value, node("c", identified("aws:///z/i-1")))
		},
		"provider-ids", check.Warning, "1 aws://, 2 sim://", "--provider-id-schemes", []string{"c"},
	},
	"one machine with two nodes": {
		func(o *check.Observation) { o.Nodes.Value = append(o.Nodes.Value, node("c", identified("sim://a"))) },
		"provider-ids", check.Error, `a and c have one provider ID, "sim://a"`, "delete the other", []string{"a", "c"},
	},
	"a taint that stays": {
		func(o *check.Observation) {
			o.Nodes.Value = append(o.Nodes.Value, node("c", identified(""), tainted(uninitialized)))
			o.Events.Value = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "c"}, Reason: "InstanceNotFound", Message: "no c"}}
		},
		"taints", check.Error, "has not been removed for 5m0s; InstanceNotFound: no c", "MooringNodeUninitialized", []string{"c"},
	},
	"a node that is held": {
		func(o *check.Observation) { o.Nodes.Value[0] = node("a", conditioned("CloudInstanceGone", time.Hour)) },
		"taints", check.Error, "deletion is held back", "MooringDeletionsHeld", []string{"a"},
	},
	"ready, but denied": {
		func(o *check.Observation) {
			o.Nodes.Value[0] = node("a", conditioned(corev1.NodeReady, time.Hour))
			for name, ago := range map[string]metav1.Time{"a": ago(time.Minute), "b": ago(time.Hour)} {
				o.Events.Value = append(o.Events.Value, corev1.Event{
					InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: name}, Reason: "InstanceNotFound", LastTimestamp: ago,
				})
			}
		},
		"taints", check.Warning, "denies instances of nodes that are ready", "delete the Node", []string{"a"},
	},
	"off, but ready": {
		func(o *check.Observation) {
			o.Nodes.Value[0] = node("a", tainted("node.cloudprovider.kubernetes.io/shutdown"), conditioned(corev1.NodeReady, time.Hour))
		},
		"taints", check.Warning, "although the kubelet has been ready", "whether a manager leads", []string{"a"},
	},
	"no network": {
		func(o *check.Observation) {
			o.Nodes.Value[0] = node("a", conditioned(corev1.NodeNetworkUnavailable, time.Hour))
		},
		"taints", check.Warning, "NetworkUnavailable has been true for 5m0s: Why", "MooringRoutesMissing", []string{"a"},
	},
	"an address that no router has": {
		func(o *check.Observation) {
			o.Services.Value = append(o.Services.Value, announcedAs("web", "NoSession"))
		},
		"announcement", check.Error, "no session for them: NoSession: Why", "docs/how-to/metal-routers.md", []string{"shop/web"},
	},
	"an address without endpoints": {
		func(o *check.Observation) {
			o.Services.Value = append(o.Services.Value, announcedAs("web", "NoEndpoints"))
		},
		"announcement", check.Warning, "not announced: NoEndpoints: Why", "events-and-conditions-services.md", []string{"shop/web"},
	},
	"a Service that no controller serves": {
		func(o *check.Observation) { o.Services.Value = append(o.Services.Value, balanced("old", time.Hour)) },
		"load-balancers", check.Warning, "no manager has said anything", "loadBalancerClass", []string{"shop/old"},
	},
	"a Service that waits": {
		func(o *check.Observation) {
			late := balanced("old", time.Hour)
			late.Status.Conditions = []metav1.Condition{{Type: "LoadBalancerReady", Status: metav1.ConditionFalse, Reason: "Refused", LastTransitionTime: ago(time.Hour)}}
			o.Services.Value = append(o.Services.Value, late)
		},
		"load-balancers", check.Warning, "not ready: Refused", "MooringServiceUnfinished", nil,
	},
	"a Service that cannot go": {
		func(o *check.Observation) {
			late := balanced("old", time.Hour)
			late.DeletionTimestamp, late.Finalizers = ptr.To(ago(time.Hour)), []string{"service.kubernetes.io/load-balancer-cleanup"}
			o.Services.Value = append(o.Services.Value, late)
		},
		"load-balancers", check.Warning, "wait for the end of their load balancers", "finalizer", nil,
	},
}

func TestHealthyCluster(t *testing.T) {
	report := check.Of(healthy())
	if report.State != check.OK || report.Count(check.OK) != len(report.Results) {
		t.Errorf("a healthy cluster:\n%s", report.Text(view.Style{}))
	}
}

func TestFindings(t *testing.T) {
	covered := map[string]bool{}
	for name, test := range breaks {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			test.edit(seen)
			report := check.Of(seen)
			for _, result := range report.Results {
				if result.Name != test.check {
					continue
				}
				if result.State != test.severity || len(result.Findings) != 1 {
					t.Fatalf("it is %q, want %q and one finding:\n%s", result.State, test.severity, report.Text(view.Style{}))
				}
				found := result.Findings[0]
				if !strings.Contains(found.Seen, test.seen) || !strings.Contains(found.Do, test.do) ||
					test.onObjects != nil && !slices.Equal(found.Objects, test.onObjects) {
					t.Errorf("the finding is %+v, want %q, %q on %q", found, test.seen, test.do, test.onObjects)
				}
			}
		})
		covered[test.check] = true
	}
	for _, name := range check.Names() {
		if !covered[name] {
			t.Errorf("no test has the check %q find something", name)
		}
	}
}

// What could not be read never makes a check fine that would have found something.
func TestWhatIsUnreadIsNeverFine(t *testing.T) {
	parts := 0
	for name, test := range breaks {
		kind := reflect.TypeFor[check.Observation]()
		for i := range kind.NumField() {
			if !strings.HasPrefix(kind.Field(i).Type.Name(), "Part[") {
				continue
			}
			parts++
			seen := healthy()
			test.edit(seen)
			field := reflect.ValueOf(seen).Elem().Field(i)
			field.SetZero()
			field.FieldByName("Unread").SetString("forbidden")
			for _, result := range check.Of(seen).Results {
				if result.Name == test.check && (result.State == check.OK || result.State == check.Absent) {
					t.Errorf("%s, without %s: the check %s is %q", name, kind.Field(i).Name, result.Name, result.State)
				}
			}
		}
	}
	if want := 10 * len(breaks); parts != want {
		t.Errorf("%d parts were left out, want %d: this test looks for them in the wrong way", parts, want)
	}
}

// Without anything to read, nothing is fine.
func TestNothingIsRead(t *testing.T) {
	seen := &check.Observation{Now: noon, Namespace: "a", Lease: "b"}
	value := reflect.ValueOf(seen).Elem()
	for i := range value.NumField() {
		if strings.HasPrefix(value.Type().Field(i).Type.Name(), "Part[") {
			value.Field(i).FieldByName("Unread").SetString("forbidden " + value.Type().Field(i).Name)
		}
	}
	report := check.Of(seen)
	if report.State != check.Unknown || report.Count(check.Unknown) != len(report.Results) {
		t.Errorf("without anything to read:\n%s", report.Text(view.Style{}))
	}
}

func TestNothingToLookAt(t *testing.T) {
	report := check.Of(&check.Observation{Now: noon, Namespace: "a", Lease: "b", Server: check.Part[string]{Value: "v1.36.0"}, Tested: []string{"v1.36.3"}})
	for _, name := range []string{"kubelets", "kube-controller-manager", "kube-proxy", "pods", "rights", "load-balancers"} {
		for _, result := range report.Results {
			if result.Name == name && (result.State != check.Absent || result.Note == "") {
				t.Errorf("%s: %+v", name, result)
			}
		}
	}
}

func TestText(t *testing.T) {
	seen := healthy()
	for i := range 7 {
		seen.Nodes.Value = append(seen.Nodes.Value, node(fmt.Sprintf("late-%d", i), identified("")))
	}
	seen.Services = check.Part[[]corev1.Service]{Unread: "Services, which you may not read"}
	seen.Nodes.Value[0].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "evil\x1b[31m-cloud-controller-manager", Time: ptr.To(ago(0))}}
	report := check.Of(seen)
	text := report.Text(view.Style{})
	for _, want := range []string{
		"ok      Version of the API server: v1.35.1+k3s1; tested with v1.36.3\n",
		"ERROR   Kubelets with --cloud-provider=external\n        seen: 7 nodes have neither",
		"        on:   late-0, late-1, late-2, late-3, late-4 and 2 more (--output=wide shows all)\n",
		"        docs: " + check.Documentation + "#kubelets\n",
		"unknown Load balancers that no controller provides\n        not read: Services, which you may not read\n",
		"\n12 checks, 8 fine, 1 with errors, 1 with warnings, 2 not possible\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || !strings.Contains(report.Text(view.Style{All: true}), "late-5, late-6\n") {
		t.Errorf("with colors, or cut:\n%s", text)
	}
	if !strings.Contains(report.Text(view.Style{Color: true}), "\x1b[31mERROR   \x1b[0m") {
		t.Error("without colors")
	}
}

// A manager that runs no controller of nodes needs nothing of kubelets.
func TestKubeletsOfAManagerOfLoadBalancersOnly(t *testing.T) {
	for controllers, want := range map[string]check.State{
		"": check.Error, "service-lb-controller": check.Absent, "-cloud-node-lifecycle-controller,*": check.Error, "service,cloud-node": check.Error,
	} {
		seen := healthy()
		seen.Nodes.Value = append(seen.Nodes.Value, node("plain", identified("")))
		flags := managers.Flags{"cloud-provider": "metal"}
		if controllers != "" {
			flags["controllers"] = controllers
		}
		seen.Workloads.Value = []check.Workload{workload("mooring", flags)}
		for _, result := range check.Of(seen).Results {
			if result.Name == "kubelets" && result.State != want {
				t.Errorf("--controllers=%s: kubelets are %s, want %s: %+v", controllers, result.State, want, result)
			}
		}
	}
}
