package chart_test

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

// TestNotes reads what Helm prints after an installation: how many run, and of a dry run how to ask for its plan.
func TestNotes(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                                   "with 2 replicas, for the cloud provider \"sim\"",
		"replicas: 1":                          "with 1 replica, for",
		"kind: DaemonSet":                      "rollout status daemonset/mooring",
		"dryRun: true":                         "and changes nothing",
		"provider: {name: metal}":              "A replica that stays pending",
		"replicas: 1\nprovider: {name: metal}": "With one replica, so they do during each update",
		"serviceMonitor: {enabled: true, insecureSkipVerify: true}": "Prometheus does not verify the certificate",
		"provider: {name: openstck}":                                `Warning: Mooring ships no provider "openstck", only metal, openstack and sim`,
		"{securePort: 10268}":                                       "rollout status deployment/mooring",
		"{dryRun: true, securePort: 10268}":                         "mooring plan --port-forward --namespace=kube-system",
	} {
		chart, set := load(t), parse(t, values)
		if set["provider"] == nil {
			set["provider"] = map[string]any{"name": "sim"}
		}
		options := chartutil.ReleaseOptions{Name: "mooring", Namespace: render.Namespace, IsInstall: true}
		all, err := chartutil.ToRenderValues(chart, set, options, chartutil.DefaultCapabilities.Copy())
		must.NoError(t, err)
		rendered, err := engine.Render(chart, all)
		must.NoError(t, err)
		notes := rendered["mooring/templates/NOTES.txt"]
		if !strings.Contains(notes, want) || strings.Contains(values, "dryRun") != strings.Contains(notes, "mooring plan") {
			t.Errorf("%s: the notes are\n%s\nand do not say %q", values, notes, want)
		}
	}
}
