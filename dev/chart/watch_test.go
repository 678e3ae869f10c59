package chart_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

// A cloud config that is watched is named, readable by that name alone, and not mounted besides.
func TestWatchedConfig(t *testing.T) {
	for name, test := range map[string]struct{ config, flag, resource, object string }{
		"inline":    {"inline: x", "secret/kube-system/mooring-cloud-config/cloud.yaml", "secrets", "mooring-cloud-config"},
		"ConfigMap": {"inline: x, kind: ConfigMap", "configmap/kube-system/mooring-cloud-config/cloud.yaml", "configmaps", "mooring-cloud-config"},
		"existing":  {"existingConfigMap: mine, key: a.yaml", "configmap/kube-system/mine/a.yaml", "configmaps", "mine"},
		"secret":    {"existingSecret: mine", "secret/kube-system/mine/cloud.yaml", "secrets", "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render.Objects(load(t), parse(t, "provider: {name: metal, config: {watch: true, "+test.config+"}}"))
			must.NoError(t, err)
			var deployment appsv1.Deployment
			var granted []rbacv1.PolicyRule
			for _, text := range objects {
				for document := range strings.SplitSeq(text, "\n---\n") {
					var role rbacv1.Role
					must.NoError(t, yaml.Unmarshal([]byte(document), &role))
					switch role.Kind {
					case "Role":
						granted = append(granted, role.Rules...)
					case "Deployment":
						must.NoError(t, yaml.Unmarshal([]byte(document), &deployment))
					}
				}
			}
			container := deployment.Spec.Template.Spec.Containers[0]
			if !slices.Contains(container.Args, "--cloud-config-object="+test.flag) || strings.Contains(strings.Join(container.Args, " "), "--cloud-config=") {
				t.Errorf("the arguments are %q, want %s", container.Args, test.flag)
			}
			for _, mount := range container.VolumeMounts {
				if mount.Name == "cloud-config" {
					t.Errorf("it is mounted: %+v", mount)
				}
			}
			if !slices.ContainsFunc(granted, func(rule rbacv1.PolicyRule) bool {
				return slices.Equal(rule.Resources, []string{test.resource}) && slices.Equal(rule.ResourceNames, []string{test.object}) &&
					slices.Equal(rule.Verbs, []string{"get", "list", "watch"})
			}) {
				t.Errorf("no rule is for %s %s: %+v", test.resource, test.object, granted)
			}
		})
	}
	if _, err := render.Objects(load(t), parse(t, "provider: {name: metal, config: {watch: true}}")); err == nil || !strings.Contains(err.Error(), "which is watched") {
		t.Errorf("nothing is watched: %v", err)
	}
}
