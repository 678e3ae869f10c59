package chart_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/must"
)

// rights are what the chart's roles give, each as "verb resource" or "verb resource/name", and whom it makes.
type rights struct {
	cluster, namespaced []string
	accounts            []string
}

// rightsOf renders the chart and reads what its roles give to the manager's own account, and which accounts it makes.
func rightsOf(t *testing.T, values string) rights {
	t.Helper()
	objects, err := render.Objects(load(t), parse(t, values))
	must.NoError(t, err)
	var found rights
	for _, file := range []string{"serviceaccount.yaml", "rbac.yaml", "rbac-kubelet-serving-certificate.yaml", "rbac-separate-identities.yaml", "rbac-metallb.yaml"} {
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(objects[file])), 4096)
		for {
			var object struct {
				Kind     string                 `json:"kind"`
				Metadata corev1.ObjectReference `json:"metadata"`
				Rules    []rbacv1.PolicyRule    `json:"rules"`
			}
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			switch own := !strings.Contains(object.Metadata.Name, "-controller-manager-"); {
			case object.Kind == "ServiceAccount":
				found.accounts = append(found.accounts, object.Metadata.Name)
			case object.Kind == "ClusterRole" && own:
				found.cluster = append(found.cluster, units(object.Rules)...)
			case object.Kind == "Role":
				found.namespaced = append(found.namespaced, units(object.Rules)...)
			}
		}
	}
	return found
}

// units takes rules apart.
func units(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		names := []string{""}
		if len(rule.ResourceNames) > 0 {
			names = rule.ResourceNames
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, strings.TrimSuffix(verb+" "+resource+" "+name, " "))
				}
			}
		}
	}
	return all
}

// TestTokensTakeSeparateIdentities reads for which accounts tokens may be made: for none by default, and for none that
// kube-controller-manager uses unless that is asked for.
func TestTokensTakeSeparateIdentities(t *testing.T) {
	own := []string{"ccm-node-controller", "ccm-route-controller", "ccm-service-controller"}
	reference := []string{"node-controller", "route-controller", "service-controller"}
	for values, want := range map[string]struct {
		tokens, made []string
		creates      bool
		prefix       string
	}{
		"": {},
		"dryRun: true\nrbac: {separateIdentities: true}":                                                                   {},
		"rbac: {separateIdentities: true}":                                                                                 {tokens: own, made: own, prefix: "ccm-"},
		"rbac: {separateIdentities: true}\ncontrollers: [service]":                                                         {tokens: own[2:], made: own[2:], prefix: "ccm-"},
		"rbac: {separateIdentities: true, extraIdentities: [{name: a-controller, rules: []}]}":                             {tokens: append([]string{"ccm-a-controller"}, own...), made: append([]string{"ccm-a-controller"}, own...), prefix: "ccm-"},
		"rbac: {separateIdentities: true, referenceIdentities: true}":                                                      {tokens: reference, creates: true},
		"rbac: {separateIdentities: true, referenceIdentities: true}\ncontrollers: [service, kubelet-serving-certificate]": {tokens: []string{"kubelet-serving-certificate", "service-controller"}, made: []string{"kubelet-serving-certificate"}, creates: true},
		"rbac: {separateIdentities: true, referenceIdentities: true}\ncontrollers: [service, cluster-autoscaler-provider]": {tokens: []string{"cluster-autoscaler-provider", "service-controller"}, made: []string{"cluster-autoscaler-provider"}, creates: true},
		"rbac: {separateIdentities: true, referenceIdentities: true}\ncontrollers: ['*', '-route']":                        {tokens: []string{reference[0], reference[2]}, creates: true},
	} {
		values += "\nserviceAccount: {name: ccm}\nprovider: {name: sim}"
		got := rightsOf(t, values)
		var tokens []string
		for _, right := range got.namespaced {
			if account, isToken := strings.CutPrefix(right, "create serviceaccounts/token"); isToken {
				tokens = append(tokens, strings.TrimSpace(account))
			}
		}
		if made := got.accounts[1:]; !slices.Equal(tokens, want.tokens) || !slices.Equal(made, want.made) {
			t.Errorf("%s: tokens of %q, accounts %q are made; want %q and %q", values, tokens, made, want.tokens, want.made)
		}
		if creates := slices.Contains(got.namespaced, "create serviceaccounts"); creates != want.creates {
			t.Errorf("%s: the manager may create accounts: %v, want %v", values, creates, want.creates)
		}
		objects, err := render.Objects(load(t), parse(t, values))
		must.NoError(t, err)
		prefix := regexp.MustCompile("--service-account-prefix=(.*)").FindStringSubmatch(objects["workload.yaml"])
		if given := strings.Join(append(prefix, "", "")[1:2], ""); given != want.prefix {
			t.Errorf("%s: the daemon gets the prefix %q, want %q", values, given, want.prefix)
		}
	}
}

// TestRightsFollowControllers reads that what only controllers need that do not run is not granted. What the rights of the plain
// manifests are good for, dev/integration/rights proves.
func TestRightsFollowControllers(t *testing.T) {
	const deletionLog = "cloud-controller-manager-node-deletions"
	writes := []string{"update nodes", "update nodes/status", "patch nodes", "delete nodes", "patch nodes/status", "patch services/status"}
	serving := []string{"list certificatesigningrequests", "patch certificatesigningrequests/approval", "approve signers kubernetes.io/kubelet-serving"}
	byDefault := append([]string{"get nodes", "list services", "list servicecidrs", "update leases " + deletionLog}, writes...)
	for values, want := range map[string][]string{
		"": byDefault,
		"controllers: ['*', '-cloud-node-lifecycle']":                                  {"get nodes", "update nodes", "update nodes/status", "patch nodes", "patch nodes/status", "list services", "list servicecidrs", "patch services/status"},
		"controllers: [cloud-node-lifecycle-controller]":                               {"get nodes", "patch nodes", "delete nodes", "patch nodes/status", "update leases " + deletionLog},
		"controllers: [route]":                                                         {"get nodes", "patch nodes/status", "list servicecidrs"},
		"controllers: [service-lb-controller]":                                         {"list services", "patch services/status"},
		"controllers: [service]\nextraArgs: ['--controllers=*']":                       byDefault,
		"rbac: {separateIdentities: true}":                                             {"get nodes", "list services", "list servicecidrs", "update leases " + deletionLog},
		"dryRun: true":                                                                 {"get nodes", "list services", "list servicecidrs"},
		"controllers: ['*', kubelet-serving-certificate]":                              append(slices.Clone(byDefault), serving...),
		"controllers: [kubelet-serving-certificate]":                                   serving,
		"extraArgs: ['--controllers=*,kubelet-serving-certificate']":                   append(slices.Clone(byDefault), serving...),
		"controllers: ['*', '-kubelet-serving-certificate']":                           byDefault,
		"controllers: [kubelet-serving-certificate]\ndryRun: true":                     serving[:1],
		"controllers: [kubelet-serving-certificate]\nrbac: {separateIdentities: true}": serving[:1],
		"controllers: [cluster-autoscaler-provider]":                                   {"get nodes", "patch nodes", "list services"},
		"controllers: [service]\nautoscaler: {existingSecret: a}":                      {"get nodes", "patch nodes", "list services", "patch services/status"},
		"autoscaler: {existingSecret: a}":                                              byDefault,
		"autoscaler: {existingSecret: a}\ndryRun: true":                                {"get nodes", "list services", "list servicecidrs"},
		"autoscaler: {existingSecret: a}\nrbac: {separateIdentities: true}":            {"get nodes", "list services", "list servicecidrs", "update leases " + deletionLog},
	} {
		got := rightsOf(t, values+"\nprovider: {name: sim}")
		all := slices.Concat(got.cluster, got.namespaced)
		for _, right := range slices.Concat(byDefault, serving) {
			if has := slices.Contains(all, right); has != slices.Contains(want, right) {
				t.Errorf("%s: it may %s: %v; it may %q", values, right, has, all)
			}
		}
		if !slices.Contains(all, "list nodes") {
			t.Errorf("%s: it may not read nodes: %q", values, all)
		}
	}
}
