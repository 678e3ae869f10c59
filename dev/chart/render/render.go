// Package render renders the chart as Helm does, and the plain manifests from it.
package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Release is the name and namespace under which the plain manifests are rendered.
const (
	Release   = "mooring"
	Namespace = "kube-system"
)

// Image stands in the plain manifests for the one that their reader has built: none is published.
const Image = "registry.example/cloud-controller-manager"

// Load reads the chart in a folder.
func Load(folder string) (*chart.Chart, error) {
	loaded, err := loader.LoadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", folder, err)
	}
	return loaded, nil
}

// Objects renders the chart with values on top of its own, checked against its schema, and returns the YAML documents by
// template, in the order of their names. Notes are left out.
func Objects(loaded *chart.Chart, values map[string]any) (map[string]string, error) {
	options := chartutil.ReleaseOptions{Name: Release, Namespace: Namespace, IsInstall: true, Revision: 1}
	full, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities.Copy())
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	files, err := engine.Render(loaded, full)
	if err != nil {
		return nil, err
	}
	objects := map[string]string{}
	for name, text := range files {
		if base := path.Base(name); strings.HasSuffix(base, ".yaml") && strings.TrimSpace(text) != "" {
			objects[base] = text
		}
	}
	return objects, nil
}

// Manifest is a file of plain manifests that is made from the chart.
type Manifest struct {
	// File is its path below deploy.
	File string
	// Head is a comment at its beginning.
	Head string
	// Values are the chart's values, as YAML.
	Values string
	// Templates are the templates that go into the file; none means all.
	Templates []string
}

// Manifests are all that ship.
var Manifests = []Manifest{
	{
		File:      "rbac.yaml",
		Head:      "What the cloud-controller-manager may do, with one identity for all controllers.",
		Values:    "provider: {name: sim}",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml"},
	},
	{
		File:      "manifests/rbac-metal.yaml",
		Head:      "What the cloud-controller-manager may do with the provider metal, in place of deploy/rbac.yaml.",
		Values:    "provider: {name: metal}",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml"},
	},
	{
		File:      "manifests/rbac-metallb.yaml",
		Head:      "What --metal-config-source=metallb needs besides deploy/manifests/rbac-metal.yaml.",
		Values:    "provider: {name: metal, metal: {configSource: metallb}}",
		Templates: []string{"rbac-metallb.yaml"},
	},
	{
		File: "manifests/rbac-load-balancers-only.yaml",
		Head: "What the cloud-controller-manager may do with the provider metal and --controllers=service-lb-controller, in place of\n" +
			"deploy/rbac.yaml.",
		Values:    "provider: {name: metal}\ncontrollers: [service-lb-controller]",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml"},
	},
	{
		File:      "manifests/rbac-kubelet-serving-certificate.yaml",
		Head:      "What --controllers=*,kubelet-serving-certificate needs besides deploy/rbac.yaml, or what is in its place.",
		Values:    "provider: {name: sim}\ncontrollers: ['*', kubelet-serving-certificate]",
		Templates: []string{"rbac-kubelet-serving-certificate.yaml"},
	},
	{
		File:      "manifests/rbac-dry-run.yaml",
		Head:      "What the cloud-controller-manager may do with --dry-run, in place of deploy/rbac.yaml.",
		Values:    "provider: {name: sim}\ndryRun: true",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml"},
	},
	{
		File: "manifests/rbac-separate-identities.yaml",
		Head: "What the cloud-controller-manager and its controllers may do with --use-service-account-credentials and\n" +
			"--service-account-prefix=cloud-controller-manager-, in place of deploy/rbac.yaml.",
		Values:    "provider: {name: sim}\nrbac: {separateIdentities: true}",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml", "rbac-separate-identities.yaml"},
	},
	{
		File: "manifests/rbac-reference-identities.yaml",
		Head: "What the cloud-controller-manager may do with --use-service-account-credentials alone, in place of deploy/rbac.yaml. The accounts\n" +
			"of its controllers are kube-controller-manager's too, and are bound to roles by Kubernetes.",
		Values:    "provider: {name: sim}\nrbac: {separateIdentities: true, referenceIdentities: true}",
		Templates: []string{"serviceaccount.yaml", "rbac.yaml", "rbac-separate-identities.yaml"},
	},
	{
		File:      "manifests/admission-policy.yaml",
		Head:      "Keeps kubelets from writing annotations of mooring.dev on Nodes.",
		Values:    "provider: {name: sim}",
		Templates: []string{"admissionpolicy.yaml"},
	},
	{
		File:   "manifests/deployment.yaml",
		Head:   "Two replicas on control-plane nodes. Put your image, the name of your provider and the Secret of its configuration in place of those here.",
		Values: "provider: {name: sim, config: {existingSecret: cloud-config}}",
	},
	{
		File:   "manifests/daemonset.yaml",
		Head:   "One replica on each control-plane node. Put your image, the name of your provider and the Secret of its configuration in place of those here.",
		Values: "kind: DaemonSet\nprovider: {name: sim, config: {existingSecret: cloud-config}}",
	},
}

// Text renders a manifest. What only Helm has a use for is left out.
func (m Manifest) Text(loaded *chart.Chart) (string, error) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(m.Values), &values); err != nil {
		return "", fmt.Errorf("values of %s: %w", m.File, err)
	}
	values["image"] = map[string]any{"repository": Image}
	objects, err := Objects(loaded, values)
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.File, err)
	}
	templates := m.Templates
	if templates == nil {
		for name := range objects {
			templates = append(templates, name)
		}
		slices.SortFunc(templates, func(a, b string) int { return rank(a) - rank(b) })
	}
	var text strings.Builder
	for line := range strings.SplitSeq("Rendered from deploy/charts/mooring by `make generate`.\n"+m.Head, "\n") {
		text.WriteString("# " + line + "\n")
	}
	for i, name := range templates {
		if i > 0 {
			text.WriteString("---\n")
		}
		text.WriteString(withoutHelm(objects[name]))
	}
	return text.String(), nil
}

// rank orders templates as they are to be applied: identities and rights before what uses them.
func rank(template string) int {
	order := []string{"serviceaccount.yaml", "rbac.yaml", "rbac-separate-identities.yaml", "config.yaml", "workload.yaml", "poddisruptionbudget.yaml", "monitoring.yaml"}
	if at := slices.Index(order, template); at >= 0 {
		return at
	}
	return len(order)
}

// withoutHelm drops the labels by which Helm knows its own, and blank lines that templates leave behind.
func withoutHelm(text string) string {
	var kept []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "helm.sh/chart:") || strings.HasPrefix(trimmed, "app.kubernetes.io/managed-by:") {
			continue
		}
		kept = append(kept, strings.TrimRight(line, " "))
	}
	return strings.Join(kept, "\n") + "\n"
}
