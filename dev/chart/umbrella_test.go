package chart_test

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

// What charts that have this one as a dependency pass on reaches the objects.
func TestWhatUmbrellaChartsPass(t *testing.T) {
	objects, err := render.Objects(load(t), parse(t, `
provider: {name: sim}
enabled: true
tags: {cloud: true}
global: {anything: 1}
nameOverride: ccm
commonLabels: {team: infra}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]
dnsConfig: {nameservers: [192.0.2.53]}
hostAliases: [{ip: 192.0.2.1, hostnames: [cloud.example]}]
serviceAccount: {create: false, name: existing}
extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Release.Name }}-extra"}}]
`))
	must.NoError(t, err)
	var workload appsv1.Deployment
	must.NoError(t, yaml.Unmarshal([]byte(objects["workload.yaml"]), &workload))
	pod := workload.Spec.Template.Spec
	switch {
	case workload.Name != "mooring-ccm" || workload.Labels["app.kubernetes.io/name"] != "ccm" || workload.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != "ccm":
		t.Errorf("named %s with labels %v", workload.Name, workload.Labels)
	case workload.Labels["team"] != "infra" || workload.Spec.Template.Labels["team"] != "infra" || workload.Spec.Selector.MatchLabels["team"] != "":
		t.Errorf("common labels: %v, %v, %v", workload.Labels, workload.Spec.Template.Labels, workload.Spec.Selector)
	case len(pod.TopologySpreadConstraints) != 1 || pod.DNSConfig == nil || len(pod.HostAliases) != 1 || pod.ServiceAccountName != "existing":
		t.Errorf("the pod is %+v", pod)
	case objects["serviceaccount.yaml"] != "":
		t.Errorf("it makes a ServiceAccount: %s", objects["serviceaccount.yaml"])
	case !strings.Contains(objects["extra.yaml"], "mooring-extra"):
		t.Errorf("the further objects are %q", objects["extra.yaml"])
	}
	objects, err = render.Objects(load(t), parse(t, "provider: {name: sim}\nfullnameOverride: cloud"))
	must.NoError(t, err)
	must.NoError(t, yaml.Unmarshal([]byte(objects["workload.yaml"]), &workload))
	if workload.Name != "cloud" {
		t.Errorf("named %s, want cloud", workload.Name)
	}
}

// accounts are the ServiceAccounts that a cluster has, for templates that look.
type accounts struct{ dynamic.Interface }

func (a accounts) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return a.Resource(schema.FromAPIVersionAndKind(apiVersion, kind).GroupVersion().WithResource("serviceaccounts")), true, nil
}

// A ServiceAccount of others is named with the remedy; the release's own is none.
func TestAServiceAccountThatExists(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		values      string
		want        string
	}{
		"of others":        {nil, "{}", "serviceAccount.create=false"},
		"of another one":   {map[string]string{"meta.helm.sh/release-name": "other"}, "{}", "serviceAccount.create=false"},
		"of this release":  {map[string]string{"meta.helm.sh/release-name": render.Release}, "{}", ""},
		"one that is used": {nil, "serviceAccount: {create: false}", ""},
		"of another name":  {nil, "serviceAccount: {name: mine}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			account := &unstructured.Unstructured{}
			account.SetAPIVersion("v1")
			account.SetKind("ServiceAccount")
			account.SetNamespace(render.Namespace)
			account.SetName("cloud-controller-manager")
			account.SetAnnotations(test.annotations)
			scheme := runtime.NewScheme()
			metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
			values := parse(t, test.values)
			values["provider"] = map[string]any{"name": "sim"}
			options := chartutil.ReleaseOptions{Name: render.Release, Namespace: render.Namespace, IsInstall: true}
			all, err := chartutil.ToRenderValues(load(t), values, options, chartutil.DefaultCapabilities.Copy())
			must.NoError(t, err)
			_, err = engine.RenderWithClientProvider(load(t), all, accounts{fake.NewSimpleDynamicClient(scheme, account)})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("rendering returned %v, want %q", err, test.want)
			}
		})
	}
}
