package view_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
)

// picture is where the documentation's picture of the page is written:
// go test ./cmd/mooring/internal/view -run TestPageInBrowser -picture=$PWD/docs/status.png
var picture = flag.String("picture", "", "write the picture of the documentation to this `file`")

// sessions are metrics of the provider metal.
const sessions = `
# TYPE mooring_metal_bgp_session_up gauge
mooring_metal_bgp_session_up{peer="tor-1"} 1
mooring_metal_bgp_session_up{peer="tor-2"} 0
# TYPE mooring_metal_bgp_prefixes gauge
mooring_metal_bgp_prefixes{peer="tor-1",family="ipv4"} 40
mooring_metal_bgp_prefixes{peer="tor-1",family="ipv6"} 2
# TYPE mooring_metal_bgp_session_flaps_total counter
mooring_metal_bgp_session_flaps_total{peer="tor-2"} 3
# TYPE mooring_metal_bgp_session_last_transition_timestamp_seconds gauge
mooring_metal_bgp_session_last_transition_timestamp_seconds{peer="tor-2"} %d
`

// quota are metrics of a cloud whose quota is short.
const quota = `
# TYPE leader_election_master_status gauge
leader_election_master_status{name="x"} 1
# TYPE mooring_inventory_instances gauge
mooring_inventory_instances 402
# TYPE mooring_inventory_listing_timestamp_seconds gauge
mooring_inventory_listing_timestamp_seconds %d
# TYPE mooring_cloud_calls_total counter
mooring_cloud_calls_total{operation="ListInstances",outcome="ok"} 412
mooring_cloud_calls_total{operation="EnsureLoadBalancer",outcome="ok"} 61
mooring_cloud_calls_total{operation="EnsureLoadBalancer",outcome="error"} 22
mooring_cloud_calls_total{operation="CreateRoute",outcome="ok"} 397
mooring_cloud_calls_total{operation="CreateRoute",outcome="error"} 9
mooring_cloud_calls_total{operation="ListRoutes",outcome="ok"} 240
# TYPE mooring_cloud_calls_in_flight gauge
mooring_cloud_calls_in_flight{group="instances"} 1
mooring_cloud_calls_in_flight{group="load balancers"} 2
# TYPE mooring_cloud_calls_waiting gauge
mooring_cloud_calls_waiting{group="load balancers"} 4
# TYPE mooring_cloud_refusals_total counter
mooring_cloud_refusals_total{group="load balancers"} 22
# TYPE mooring_cloud_rate_limit gauge
mooring_cloud_rate_limit{group="load balancers"} 2.5
# TYPE mooring_route_listed gauge
mooring_route_listed 397
# TYPE mooring_route_missing gauge
mooring_route_missing 1
# TYPE mooring_route_limit gauge
mooring_route_limit 500
# TYPE mooring_service_targets gauge
mooring_service_targets 397
`

// showcase is a cluster of 400 nodes with a little of everything.
func showcase(t *testing.T) view.Seen {
	t.Helper()
	metrics := fmt.Sprintf(quota, noon.Add(-20*time.Second).Unix())
	seen := view.Seen{
		Now: noon, Interval: time.Second, Metrics: families(t, metrics),
		Before: families(t, strings.NewReplacer("} 412", "} 411", "} 397", "} 395").Replace(metrics)),
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("control-plane-2_5f1c2a90"), LeaseDurationSeconds: ptr.To(int32(15)),
			AcquireTime: ptr.To(metav1.NewMicroTime(noon.Add(-26 * time.Hour))), RenewTime: ptr.To(metav1.NewMicroTime(noon.Add(-time.Second))),
		}},
	}
	for i := range 400 {
		one := node(fmt.Sprintf("node-%03d", i), conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "RouteCreated", ""))
		one.Spec.ProviderID = fmt.Sprintf("sim://i-%08d", i)
		one.Labels[corev1.LabelTopologyZone] = "sim-1" + string("aabbc"[i%5])
		waits(i, &one)
		seen.Nodes = append(seen.Nodes, one)
	}
	seen.Events = append(seen.Events,
		event("Node", "", "node-042", "uid", "InstanceNotFound", `the cloud has no instance with the name "node-042"`, 40*time.Second),
		event("Service", "shop", "checkout", "uid", "SyncLoadBalancerFailed", "EnsureLoadBalancer: 429 Too Many Requests: the quota of load balancers is used up", 8*time.Second),
		event("Node", "", "node-043", "uid", "Synced", "the node has what the cloud says of its instance", 3*time.Minute),
		event("Service", "shop", "web", "uid", "LoadBalancerDrifted", "a listener on port 443 was gone; it has been repaired", 12*time.Minute),
	)
	seen.Events[0].Type, seen.Events[1].Type, seen.Events[1].Count = corev1.EventTypeWarning, corev1.EventTypeWarning, 5
	for i, name := range []string{"web", "checkout", "search", "images", "legacy"} {
		seen.Services = append(seen.Services, showcaseService(i, name))
	}
	return seen
}

// waits makes something wrong with a few of the nodes.
func waits(i int, n *corev1.Node) {
	switch i {
	case 42:
		tainted("node.cloudprovider.kubernetes.io/uninitialized", 0)(n)
		n.Spec.ProviderID, n.Status.Conditions = "", nil
		n.CreationTimestamp = before(9 * time.Minute)
	case 100:
		conditioned("CloudInstanceGone", corev1.ConditionTrue, "KubeletReports", "the cloud denies the instance, and the kubelet reports; look for the machine in the cloud's console")(n)
	case 201, 202:
		tainted("node.cloudprovider.kubernetes.io/shutdown", 3*time.Hour)(n)
	case 333:
		n.Status.Conditions = nil
		conditioned(corev1.NodeNetworkUnavailable, corev1.ConditionTrue, "NoRouteCreated", "CreateRoute: the route table takes no more than 500 routes")(n)
	}
}

func showcaseService(i int, name string) corev1.Service {
	service := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid", CreationTimestamp: before(48 * time.Hour)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	ready := metav1.Condition{Type: "LoadBalancerReady", Status: "True", Reason: "Provided", LastTransitionTime: before(30 * time.Hour)}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("192.0.2.%d", 10+i)}}
	switch name {
	case "checkout":
		service.Status.LoadBalancer.Ingress = nil
		ready = metav1.Condition{
			Type: "LoadBalancerReady", Status: "False", Reason: "Throttled", LastTransitionTime: before(2 * time.Minute),
			Message: "EnsureLoadBalancer: 429 Too Many Requests: the quota of load balancers is used up",
		}
	case "legacy":
		service.DeletionTimestamp, service.Finalizers = ptr.To(before(time.Minute)), []string{"service.kubernetes.io/load-balancer-cleanup"}
	}
	service.Status.Conditions = []metav1.Condition{ready}
	return service
}

func pageOf(t *testing.T, seen view.Seen) string {
	t.Helper()
	var out strings.Builder
	if err := view.Of(seen).HTML(&out, seen, "blue"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// textOf is the text of a page, its parts separated by spaces.
func textOf(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for node := range root.Descendants() {
		if node.Type == html.TextNode && node.Parent.Data != "style" {
			words = append(words, strings.Fields(node.Data)...)
		}
	}
	return strings.Join(words, " ")
}

func TestPage(t *testing.T) {
	seen := showcase(t)
	metal := fmt.Sprintf(sessions, noon.Add(-time.Hour).Unix())
	for name, family := range families(t, metal) {
		seen.Metrics[name] = family
	}
	seen.Unknown = []string{"the weather"}
	text := textOf(t, pageOf(t, seen))
	for _, want := range []string{
		"Mooring status blue 2026-", "Leader control-plane-2_5f1c2a90 for 1d, renewed 1s ago", "Nodes 400 5 with problems", "Load balancers 5 2 with problems",
		"Routes 397 1 missing", "4 waiting, 22 refused", "Not known the weather",
		"node-100 held 7m sim-1a yes KubeletReports: the cloud denies", "node-042 uninitialized 9m sim-1b InstanceNotFound: the cloud has no instance",
		"sim-1c 80 nodes", "397 nodes are targets of each", "shop/checkout not ready 2m Throttled: EnsureLoadBalancer: 429", "shop/web ready 1d 192.0.2.10",
		"397 in the cloud of 500 that it takes, 1 missing", "tor-1 established 42 0 times", "tor-2 down 1h00m 0 3 times",
		"load balancers 2.5 2 4 22", "EnsureLoadBalancer 83 22 0.0", "CreateRoute 406 9 2.0", "8s Service shop/checkout SyncLoadBalancerFailed 5 times",
		"All 400 nodes", "402 instances, by listing", "node-333 no route sim-1b no NoRouteCreated: CreateRoute:",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%.6000s", want, text)
		}
	}
}

// What others wrote is text and nothing else, and the page loads nothing.
func TestPageIsSafe(t *testing.T) {
	evil := `</style></title><script>alert(1)</script>" onload="x` + "\x1b[31m"
	seen := showcase(t)
	seen.Nodes = append(seen.Nodes, node(evil, func(n *corev1.Node) {
		n.Spec.ProviderID, n.Labels[corev1.LabelTopologyZone] = evil, evil
		conditioned("CloudInstanceGone", corev1.ConditionTrue, evil, evil)(n)
	}))
	seen.Events = append(seen.Events, event("Node", "", evil, "uid", evil, evil, 0))
	seen.Unknown = []string{evil}
	page := pageOf(t, seen)
	if strings.Contains(page, "<script") || strings.Contains(page, "\x1b") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("what others wrote is not escaped")
	}
	if loads := regexp.MustCompile(`(?i)(\b(src|href)=|url\(|@import)`).FindString(page); loads != "" {
		t.Errorf("the page loads something: %q", loads)
	}
}

func TestPageOfAnEmptyCluster(t *testing.T) {
	text := textOf(t, pageOf(t, view.Seen{Now: noon, Unknown: []string{"the nodes, which you may not read"}}))
	for _, want := range []string{"Leader not known", "Nodes ? not known", "the nodes, which you may not read", "No manager was asked."} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

// measure is a script that replaces the page by what is wrong with its layout: what is wider than the window, and text that is cut.
const measure = `<script>
const wrong = [];
if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is " + document.documentElement.scrollWidth + " wide");
for (const e of document.querySelectorAll("main *")) {
  if (e.closest("svg, .bar, .table") || e.classList.contains("table")) continue;
  const r = e.getBoundingClientRect();
  if (r.right > innerWidth + 1) wrong.push(e.tagName + "." + e.className + " ends at " + Math.round(r.right));
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) wrong.push(e.tagName + "." + e.className + " is cut: " + e.textContent.trim().slice(0, 40));
}
const rects = document.querySelectorAll("svg rect").length;
document.documentElement.innerHTML = "<pre>window " + innerWidth + ", squares " + rects + ", " +
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") + ", wrong: " + wrong.slice(0, 9).join("; ") + "</pre>";
</script></html>`

// TestPageInBrowser lays the page out in Chromium: nothing is cut and nothing is wider than the window, in light and in dark, for few
// nodes and for thousands, on a screen and on a telephone.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		sandbox.Without(t, "chromium is missing: apt-get install chromium")
	}
	if *picture != "" {
		chromium(t, browser, pageOf(t, showcase(t)), "--window-size=1280,1900", "--screenshot="+*picture, "--hide-scrollbars", "--blink-settings=preferredColorScheme=1")
		return
	}
	for name, test := range map[string]struct {
		seen  view.Seen
		width int
		flag  string
		want  string
	}{
		"on a screen":              {showcase(t), 1280, "--blink-settings=preferredColorScheme=1", "squares 400, light"},
		"on a telephone, at night": {showcase(t), 500, "--blink-settings=preferredColorScheme=0", "squares 400, dark"},
		"a crowd":                  {crowd(), 1000, "--blink-settings=preferredColorScheme=1", "squares 5000, light"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := pageOf(t, test.seen)
			page = regexp.MustCompile(`<meta http-equiv=[^>]*>`).ReplaceAllString(page, "")
			page = strings.Replace(page, "</html>", measure, 1)
			dom := chromium(t, browser, page, fmt.Sprintf("--window-size=%d,900", test.width), test.flag, "--dump-dom")
			if !strings.Contains(dom, test.want+", wrong: </pre>") {
				t.Errorf("want %q and nothing wrong:\n%.2000s", test.want, dom)
			}
		})
	}
}

// chromium opens a page and returns what the browser writes.
func chromium(t *testing.T, browser, page string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "status.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Without a sandbox: the tests run as root, and the page is ours.
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + filepath.Join(dir, "profile"),
	}, append(args, "file://"+file)...)
	command := exec.CommandContext(ctx, browser, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, stderr.String(), output)
	}
	return string(output)
}
