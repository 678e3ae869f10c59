package rights_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/must"
)

// The manifests of this file bind what the ClusterRole "harbor" grants, and the built-in role "pilot".
const (
	harborRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: harbor}
rules: [%s]
---
`
	harborBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: harbor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: harbor}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pilot, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pilot}
`
	byHarbor = `ClusterRoleBinding "harbor"`
	byPilot  = `RoleBinding "pilot/kube-system"`
)

func harbor(rules ...string) []byte {
	return []byte(fmt.Sprintf(harborRole, strings.Join(rules, ", ")) + harborBinding)
}

func TestGrantsOfAManifest(t *testing.T) {
	got, err := grantsOf(harbor(
		`{apiGroups: [""], resources: [nodes, nodes/status], verbs: [patch]}`,
		`{apiGroups: [apps], resources: [deployments], resourceNames: [crane], verbs: [get, watch]}`,
	))
	must.NoError(t, err)
	var described []string
	for _, g := range got {
		described = append(described, g.String()+" by "+g.binding)
	}
	want := []string{
		"patch nodes by " + byHarbor, "patch nodes/status by " + byHarbor,
		`get deployments.apps "crane" by ` + byHarbor, `watch deployments.apps "crane" by ` + byHarbor,
		"everything of the role pilot by " + byPilot,
	}
	if diff := cmp.Diff(want, described); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
}

func TestManifestsThatCannotBeTheLeast(t *testing.T) {
	for name, test := range map[string]struct {
		manifest []byte
		want     string
	}{
		"a wildcard":           {harbor(`{apiGroups: [""], resources: [nodes], verbs: ["*"]}`), "the wildcard in"},
		"all subresources":     {harbor(`{apiGroups: [""], resources: ["*/status"], verbs: [patch]}`), "the wildcard in"},
		"a grant given twice":  {harbor(`{apiGroups: [""], resources: [nodes, nodes], verbs: [get]}`), "get nodes is granted twice"},
		"a role that is spare": {fmt.Appendf(nil, harborRole, ""), "ClusterRole harbor has no binding"},
		"paths":                {harbor(`{nonResourceURLs: [/configz], verbs: [get]}`), "does not know about the nonResourceURLs"},
		"something else":       {[]byte("apiVersion: v1\nkind: Secret\n"), "does not know what a *v1.Secret grants"},
		"a kind that is none":  {[]byte("apiVersion: v1\nkind: Anchor\n"), `no kind "Anchor" is registered`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := grantsOf(test.manifest); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

// answered is an entry of the audit log.
func answered(by, verb, resource, namespace, name string) auditv1.Event {
	event := auditv1.Event{
		Verb: verb, User: authenticationv1.UserInfo{Username: shippedUser},
		ObjectRef:      &auditv1.ObjectReference{Resource: resource, Namespace: namespace, Name: name},
		ResponseStatus: &metav1.Status{Code: 200},
		Annotations:    map[string]string{decision: "allow", reason: "RBAC: allowed by " + by + ` of ClusterRole "harbor" to User "x"`},
	}
	event.ObjectRef.Resource, event.ObjectRef.Subresource, _ = strings.Cut(resource, "/")
	if by == "" {
		event.Annotations = map[string]string{decision: "forbid", reason: ""}
		event.ResponseStatus.Code = 403
	}
	return event
}

func TestComparison(t *testing.T) {
	const nodes = `{apiGroups: [""], resources: [nodes], verbs: [list, patch]}`
	asked := []auditv1.Event{
		answered(byHarbor, "list", "nodes", "", ""), answered(byHarbor, "patch", "nodes", "", "a"), answered(byPilot, "get", "secrets", "x", "y"),
	}
	for name, test := range map[string]struct {
		rules                []string
		asked                []auditv1.Event
		unused, refused, big []string
	}{
		"all is used": {rules: []string{nodes}, asked: asked},
		"an unneeded verb": {
			rules: []string{`{apiGroups: [""], resources: [nodes], verbs: [list, patch, delete]}`}, asked: asked,
			unused: []string{"delete nodes"},
		},
		"an unneeded built-in role": {rules: []string{nodes}, asked: asked[:2], unused: []string{"everything of the role pilot"}},
		"a subresource is something else": {
			rules:  []string{nodes, `{apiGroups: [""], resources: [nodes/status], verbs: [patch]}`},
			asked:  append(asked, answered("", "update", "nodes/status", "", "a")),
			unused: []string{"patch nodes/status"}, refused: []string{`cloud-controller-manager: update nodes/status "a"`},
		},
		"a name that a grant for all covers": {
			rules: []string{nodes, `{apiGroups: [""], resources: [nodes], resourceNames: [a], verbs: [patch]}`}, asked: asked,
			unused: []string{"patch nodes", `patch nodes "a"`},
		},
		"one object of many": {
			rules: []string{nodes, `{apiGroups: [""], resources: [namespaces], verbs: [get]}`},
			asked: append(asked, answered(byHarbor, "get", "namespaces", "kube-system", "kube-system")),
			big:   []string{`get namespaces: asked for "kube-system" only`},
		},
		"one namespace of many": {
			rules: []string{nodes, `{apiGroups: [""], resources: [pods], verbs: [create]}`},
			asked: append(asked, answered(byHarbor, "create", "pods", "kube-system", "a")),
			big:   []string{"create pods: asked for in namespace kube-system only"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			grants, err := grantsOf(harbor(test.rules...))
			must.NoError(t, err)
			got := comparison{grants: grants, requests: requestsOf(test.asked)}
			if diff := cmp.Diff(test.unused, texts(got.unused())); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.refused, texts(got.refused())); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.big, got.tooWide()); diff != "" {
				t.Errorf("too wide (-want +got):\n%s", diff)
			}
		})
	}
}

func texts[T fmt.Stringer](elements []T) []string {
	var texts []string
	for _, element := range elements {
		texts = append(texts, element.String())
	}
	return texts
}
