// Package chart_test renders the Helm chart, lints it, applies it to a real API server and runs the manager with what it makes.
package chart_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/lint"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

const (
	root   = "../.."
	folder = root + "/deploy/charts/mooring"
)

// load reads the chart.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := render.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// parse reads values as they stand in a file, with an image if there is none: it is required.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	if values["image"] == nil {
		values["image"] = map[string]any{"repository": render.Image}
	}
	return values
}

// everything turns on all that is off by default.
const everything = `
provider:
  name: metal
  config: {inline: "a: b\nc: d\n", kind: ConfigMap, restartOnChange: false}
  secrets: [bgp, bmc]
controllers: ["*", "-service"]
clusterCIDR: 10.0.0.0/8
allocateNodeCIDRs: true
configureCloudRoutes: true
extraArgs: ["--v=2"]
extraEnv: [{name: A, value: b}]
extraVolumes: [{name: extra, emptyDir: {}}]
extraVolumeMounts: [{name: extra, mountPath: /extra}]
apiServer: {host: 192.0.2.1, port: 6443}
image: {repository: registry.example/ccm, digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullSecrets: [pull]}
rbac: {separateIdentities: true, extraRules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}
podLabels: {team: infra}
podAnnotations: {note: x}
serviceAccount: {annotations: {role: x}}
servingCertificate: {existingSecret: serving}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
dashboard: {enabled: true}
`

func TestLint(t *testing.T) {
	for name, values := range map[string]string{
		"defaults":        "{}",
		"deployment":      "provider: {name: sim}",
		"daemonset":       "kind: DaemonSet\nprovider: {name: sim}",
		"dry run":         "dryRun: true\nprovider: {name: sim}",
		"autoscaler":      "provider: {name: sim}\nhostNetwork: false\nautoscaler: {existingSecret: a, from: [{podSelector: {}}]}\nnetworkPolicy: {enabled: true}",
		"with everything": everything,
	} {
		t.Run(name, func(t *testing.T) {
			for _, message := range lint.All(folder, parse(t, values), render.Namespace, true).Messages {
				if !strings.Contains(message.Error(), "icon is recommended") {
					t.Error(message)
				}
			}
		})
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		wants  []string
	}{
		"no provider":              {"replicas: 3", []string{"provider.name: required: the name that the provider has registered"}},
		"all at once":              {"kind: StatefulSet\nreplicas: 0\nprovider: {name: sim}\nsecurePort: 70000", []string{"/kind", "/replicas", "/securePort"}},
		"a name that is not known": {"provider: {name: sim}\nreplica: 3", []string{"replica"}},
		"an argument that is none": {"provider: {name: sim}\nextraArgs: [v=2]", []string{"/extraArgs/0"}},
		"two sources of config": {
			"provider: {name: sim, config: {inline: a, existingSecret: b}}", []string{"give one of inline, existingSecret and existingConfigMap"},
		},
		"routes of no range": {"provider: {name: sim}\nconfigureCloudRoutes: true", []string{"clusterCIDR: required with configureCloudRoutes"}},
		"half of an address": {"provider: {name: sim}\napiServer: {host: 192.0.2.1}", []string{"apiServer: host and port go together"}},
		"CIDRs of no range":  {"provider: {name: sim}\nallocateNodeCIDRs: true", []string{"clusterCIDR: required with allocateNodeCIDRs"}},
		"nothing to replace": {"provider: {name: sim}\nrollingUpdate: {maxUnavailable: 0}", []string{"cannot both be 0"}},
		"ports of two Pods":  {"kind: DaemonSet\nprovider: {name: sim}\nrollingUpdate: {maxUnavailable: 0}", []string{"cannot be 0 with kind=DaemonSet"}},
		"a certificate that Prometheus cannot verify": {
			"provider: {name: sim}\nserviceMonitor: {enabled: true}", []string{"serviceMonitor: needs servingCertificate.existingSecret"},
		},
		"two certificates": {
			"provider: {name: sim}\nservingCertificate: {existingSecret: a, certManager: {enabled: true, issuerRef: {name: b}}}",
			[]string{"servingCertificate: give existingSecret or certManager, not both"},
		},
		"an issuer of nothing": {
			"provider: {name: sim}\nservingCertificate: {certManager: {enabled: true}}", []string{"servingCertificate.certManager.issuerRef: required"},
		},
		"a port of two": {"provider: {name: sim}\nautoscaler: {existingSecret: a, port: 10258}", []string{"autoscaler.port: is securePort, too"}},
		"controllers twice": {
			"provider: {name: sim}\nautoscaler: {existingSecret: a}\nextraArgs: ['--controllers=service']", []string{"autoscaler.existingSecret: give controllers in place of"},
		},
		"a policy that selects nothing": {
			"provider: {name: sim}\nnetworkPolicy: {enabled: true}", []string{"networkPolicy: needs hostNetwork=false"},
		},
		"identities without separate ones": {
			"provider: {name: sim}\nrbac: {referenceIdentities: true}", []string{"rbac.referenceIdentities and rbac.extraIdentities: are for rbac.separateIdentities=true"},
		},
		"no image": {"provider: {name: sim}\nimage: {tag: v1}", []string{"image.repository: required", "no image is published", "make image"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render.Objects(load(t), parse(t, test.values))
			if err == nil {
				t.Fatal("it renders")
			}
			for _, want := range test.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not name %s: %v", want, err)
				}
			}
		})
	}
}

func TestManifestsAreCurrent(t *testing.T) {
	loaded := load(t)
	for _, manifest := range render.Manifests {
		want, err := manifest.Text(loaded)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(root, "deploy", manifest.File))
		if err != nil {
			t.Error(err)
		}
		if string(have) != want {
			t.Errorf("deploy/%s is not what the chart renders: run make generate", manifest.File)
		}
	}
}

func TestReadmeIsCurrent(t *testing.T) {
	want, err := render.Readme(folder)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("the README is not what values.yaml says: run make generate")
	}
	if rows := strings.Count(want, "\n- `"); rows < 60 {
		t.Errorf("the list has %d rows: this test looks in the wrong place", rows)
	}
}

// TestDryRunMayNotWrite reads every rule that the chart binds to its own ServiceAccount then.
func TestDryRunMayNotWrite(t *testing.T) {
	objects, err := render.Objects(load(t), parse(t, "dryRun: true\nprovider: {name: sim}"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(objects["workload.yaml"], "- --dry-run\n") {
		t.Error("the daemon is not told")
	}
	verbs := regexp.MustCompile(`verbs: \[(.*)\]`).FindAllStringSubmatch(objects["rbac.yaml"], -1)
	if len(verbs) == 0 {
		t.Fatal("there is no rule: this test looks in the wrong place")
	}
	for _, list := range verbs {
		for verb := range strings.SplitSeq(list[1], ", ") {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("it may %s", verb)
			}
		}
	}
}

// expressions returns every PromQL expression that ships, by where it stands.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, alert := range alerts(t) {
		found["alert "+alert.Alert] = alert.Expr
	}
	text, err := os.ReadFile(filepath.Join(folder, "files", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard panel // its panels are where a row has them
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatalf("dashboard: %v", err)
	}
	ids := map[int]string{}
	for _, panel := range dashboard.all() {
		if other, taken := ids[panel.ID]; taken && panel.ID != 0 {
			t.Errorf("panels %q and %q have the same ID", panel.Title, other)
		}
		ids[panel.ID] = panel.Title
		for i, target := range panel.Targets {
			found[fmt.Sprintf("panel %q, %d", panel.Title, i)] = target.Expr
		}
	}
	return found
}

// panel is a part of the dashboard. A row that is collapsed has its panels inside.
type panel struct {
	ID      int
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

// all returns a panel and those in it.
func (p panel) all() []panel {
	found := []panel{p}
	for _, inside := range p.Panels {
		found = append(found, inside.all()...)
	}
	return found
}

// alert is one of the shipped rules.
type alert struct {
	Alert, Expr, For string
	Annotations      map[string]string
	Labels           map[string]string
	// metal is set for alerts that exist with the provider metal only.
	metal bool
}

// alerts returns all rules as the chart renders them for the provider metal.
func alerts(t *testing.T) []alert {
	t.Helper()
	objects, err := render.Objects(load(t), parse(t, "provider: {name: metal}\nprometheusRule: {enabled: true, runbookBase: 'https://docs.example/runbooks.md'}"))
	must.NoError(t, err)
	_, text, found := strings.Cut(objects["monitoring.yaml"], "kind: PrometheusRule\n")
	if !found {
		t.Fatal("there is no PrometheusRule")
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Name  string
				Rules []alert
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &rule); err != nil {
		t.Fatalf("alerts: %v", err)
	}
	var all []alert
	for _, group := range rule.Spec.Groups {
		for _, alert := range group.Rules {
			alert.metal = group.Name == "mooring-metal"
			all = append(all, alert)
		}
	}
	return all
}

// TestAlertsOfMetalAreItsOwn finds none of them with another provider.
func TestAlertsOfMetalAreItsOwn(t *testing.T) {
	objects, err := render.Objects(load(t), parse(t, "provider: {name: sim}\nprometheusRule: {enabled: true}"))
	must.NoError(t, err)
	if text := objects["monitoring.yaml"]; strings.Contains(text, "mooring_metal_") || !strings.Contains(text, "alert: MooringAbsent") {
		t.Errorf("the alerts of another provider are\n%s", text)
	}
}

// ofTheTarget are labels that Prometheus gives all series of a target, and that a kind of metrics has.
var ofTheTarget = []string{"cluster", "namespace", "job", "instance", "pod", "le"}

// asksForWhatIs returns what an expression asks for that no row of the page of metrics has: labels in selectors and groups, and values, which
// the text of the row names. Rows are the labels and texts by metric; metrics of libraries have none.
func asksForWhatIs(expression parser.Expr, rows map[string][2]string) (wrong []string) {
	grouped := slices.Clone(ofTheTarget)
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		row, ours := rows[strings.TrimSuffix(selector.Name, "_bucket")]
		for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[0], -1) {
			grouped = append(grouped, found[1])
		}
		for _, matcher := range selector.LabelMatchers {
			if !ours || matcher.Name == model.MetricNameLabel || slices.Contains(ofTheTarget, matcher.Name) {
				continue
			}
			if !strings.Contains(row[0], "`"+matcher.Name+"`") {
				wrong = append(wrong, selector.Name+" by "+matcher.Name)
			}
			for value := range strings.SplitSeq(matcher.Value, "|") {
				if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(row[1]) {
					wrong = append(wrong, fmt.Sprintf("%s with %s=%q", selector.Name, matcher.Name, value))
				}
			}
		}
		return nil
	})
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if by, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range by.Grouping {
				if !slices.Contains(grouped, label) {
					wrong = append(wrong, by.String()+" by "+label)
				}
			}
		}
		return nil
	})
	return wrong
}

// TestMetricsThatAreAskedForExist holds alerts and dashboard against the page of all metrics, which is itself checked against the
// program.
func TestMetricsThatAreAskedForExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range regexp.MustCompile("`([a-z][a-z0-9_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[name[1]] = true
	}
	rows := map[string][2]string{}
	for _, row := range regexp.MustCompile("(?m)^- `([a-z0-9_]+)` \\(([^)]*)\\): (.*)$").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = [2]string{row[2], row[3]}
	}
	for wrong, expression := range map[string]string{
		"mooring_service_drift_total by result":                   `mooring_service_drift_total{result="gone"}`,
		`mooring_service_drift_total with kind="success"`:         `mooring_service_drift_total{kind=~"gone|success"}`,
		"sum by (result) (mooring_service_drift_total) by result": `sum by (result) (mooring_service_drift_total)`,
	} {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
		must.NoError(t, err)
		if got := asksForWhatIs(parsed, rows); !slices.Contains(got, wrong) {
			t.Errorf("%s: found %q, want %q", expression, got, wrong)
		}
	}
	shipped := expressions(t)
	if len(shipped) < 20 || len(rows) < 50 {
		t.Fatalf("found %d expressions and %d metrics: this test looks in the wrong place", len(shipped), len(rows))
	}
	promQL := parser.NewParser(parser.Options{})
	for _, where := range slices.Sorted(maps.Keys(shipped)) {
		expression, err := promQL.ParseExpr(shipped[where])
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		for _, wrong := range asksForWhatIs(expression, rows) {
			t.Errorf("%s asks for %s, which docs/reference/metrics.md does not know", where, wrong)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				name := strings.TrimSuffix(selector.Name, "_bucket")
				if !documented[name] {
					t.Errorf("%s asks for %s, which docs/reference/metrics.md does not know", where, selector.Name)
				}
			}
			return nil
		})
	}
}

// TestClustersAreKeptApart: one Prometheus may watch several, as with kubernetes-mixin. Alerts group by where the manager is, and panels select it.
func TestClustersAreKeptApart(t *testing.T) {
	where := []string{"cluster", "namespace", "job"}
	lacks := func(in []string) bool {
		return slices.ContainsFunc(where, func(label string) bool { return !slices.Contains(in, label) })
	}
	for at, text := range expressions(t) {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		must.NoError(t, err)
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			switch one := node.(type) {
			case *parser.AggregateExpr:
				if strings.HasPrefix(at, "alert ") && !one.Without && lacks(one.Grouping) {
					t.Errorf("%s groups by %q", at, one.Grouping)
				}
			case *parser.VectorSelector:
				var selected []string
				for _, matcher := range one.LabelMatchers {
					selected = append(selected, matcher.Name)
				}
				if strings.HasPrefix(at, "panel ") && lacks(selected) {
					t.Errorf("%s selects by %q", at, selected)
				}
			}
			return nil
		})
	}
}

// runbooks returns the page of an alert's runbook.
func (a alert) runbooks() string {
	if a.metal {
		return "runbooks-metal.md"
	}
	return "runbooks.md"
}

func TestEveryAlertHasARunbook(t *testing.T) {
	headings := map[string]bool{}
	for _, page := range []string{"runbooks.md", "runbooks-metal.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, heading := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(text), -1) {
			headings[page+" "+heading[1]] = true
		}
	}
	for _, alert := range alerts(t) {
		if !headings[alert.runbooks()+" "+alert.Alert] {
			t.Errorf("docs/how-to/%s has no section %s", alert.runbooks(), alert.Alert)
		}
		if want := "https://docs.example/" + alert.runbooks() + "#" + strings.ToLower(alert.Alert); alert.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", alert.Alert, alert.Annotations["runbook_url"], want)
		}
		if alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" || alert.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary, a description or a severity", alert.Alert)
		}
		delete(headings, alert.runbooks()+" "+alert.Alert)
	}
	for left := range headings {
		t.Errorf("there is a section %s, for which there is no alert", left)
	}
}
