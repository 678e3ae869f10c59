package rights_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// grant is the smallest piece of what a manifest grants: one verb on one resource, or all that a role grants which the
// manifest binds and does not define.
type grant struct {
	// binding is through what the grant is given, in the words of the API server: `ClusterRoleBinding "name"`.
	binding string
	// given is the name of a role that the manifest does not define. Of such a grant nothing more is known.
	given string
	// namespace is the namespace of a Role; empty: all.
	namespace string
	group     string
	// resource has a subresource after a slash.
	resource string
	// name is the name of the only object; empty: all.
	name string
	verb string
}

// String reads like a rule, broadest part first.
func (g grant) String() string {
	if g.given != "" {
		return "everything of the role " + g.given
	}
	return where(g.verb, g.group, g.resource, g.namespace, g.name)
}

// covers reports whether the grant is the one that lets a request pass.
func (g grant) covers(r request) bool {
	if g.binding != r.binding {
		return false
	}
	return g.given != "" ||
		g.verb == r.verb && g.group == r.group && g.resource == r.resource && (g.name == "" || g.name == r.name)
}

// canBeNamed reports whether RBAC can restrict the grant to one object. The API server authorizes the creation of an object before it knows the name.
// For the creation of a subresource it knows the name.
func (g grant) canBeNamed() bool { return g.verb != "create" || strings.Contains(g.resource, "/") }

// where says what is done to what, in the words of the manager's own report of missing grants.
func where(verb, group, resource, namespace, name string) string {
	text := verb + " " + resource
	if group != "" {
		text += "." + group
	}
	if name != "" {
		text += fmt.Sprintf(" %q", name)
	}
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return text
}

// manifest is what the objects of a manifest say about rights.
type manifest struct {
	rules    map[string][]rbacv1.PolicyRule // by kind and name of the role
	bindings []binding
}

// binding is a ClusterRoleBinding or a RoleBinding.
type binding struct {
	described, namespace string
	role                 rbacv1.RoleRef
	subjects             []rbacv1.Subject
}

// grantsOf takes a manifest apart into what it grants. What cannot be the least is an error: wildcards first of all.
func grantsOf(content []byte) ([]grant, error) {
	m, err := manifestOf(content)
	if err != nil {
		return nil, err
	}
	return m.grants()
}

// manifestOf reads a manifest. What it does not understand is an error.
func manifestOf(content []byte) (*manifest, error) {
	m := &manifest{rules: map[string][]rbacv1.PolicyRule{}}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		if err := m.add(object); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *manifest) add(object runtime.Object) error {
	switch o := object.(type) {
	case *corev1.ServiceAccount:
	case *rbacv1.ClusterRole:
		m.rules["ClusterRole "+o.Name] = o.Rules
	case *rbacv1.Role:
		m.rules["Role "+o.Name] = o.Rules
	case *rbacv1.ClusterRoleBinding:
		m.bindings = append(m.bindings, binding{fmt.Sprintf("ClusterRoleBinding %q", o.Name), "", o.RoleRef, o.Subjects})
	case *rbacv1.RoleBinding:
		m.bindings = append(m.bindings, binding{fmt.Sprintf("RoleBinding %q", o.Name+"/"+o.Namespace), o.Namespace, o.RoleRef, o.Subjects})
	default:
		return fmt.Errorf("this test does not know what a %T grants", object)
	}
	return nil
}

// grants returns what the bindings give. A role that nothing binds gives nothing, so its rules are reported as an error.
func (m *manifest) grants() ([]grant, error) {
	var all []grant
	bound := map[string]bool{}
	for _, b := range m.bindings {
		role := b.role.Kind + " " + b.role.Name
		bound[role] = true
		rules, ours := m.rules[role]
		if !ours {
			all = append(all, grant{binding: b.described, given: b.role.Name})
			continue
		}
		for _, rule := range rules {
			units, err := unitsOf(rule)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", role, err)
			}
			for _, unit := range units {
				unit.binding, unit.namespace = b.described, b.namespace
				all = append(all, unit)
			}
		}
	}
	for role := range m.rules {
		if !bound[role] {
			return nil, fmt.Errorf("%s has no binding", role)
		}
	}
	for i, g := range all {
		if slices.Contains(all[:i], g) {
			return nil, fmt.Errorf("%s is granted twice", g)
		}
	}
	return all, nil
}

// unitsOf takes a rule apart.
func unitsOf(rule rbacv1.PolicyRule) ([]grant, error) {
	if len(rule.NonResourceURLs) == 1 && (rule.NonResourceURLs[0] == "/metrics" || rule.NonResourceURLs[0] == "/plan") && slices.Equal(rule.Verbs, []string{"get"}) {
		return nil, nil // paths of the secure port, which the tool reads with a token of this account
	}
	if len(rule.NonResourceURLs) > 0 {
		return nil, fmt.Errorf("this test does not know about the nonResourceURLs %q", rule.NonResourceURLs)
	}
	if said := slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames); slices.ContainsFunc(said, isWildcard) {
		return nil, fmt.Errorf("the wildcard in %s cannot be the least", rule.String())
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var units []grant
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					units = append(units, grant{group: group, resource: resource, name: name, verb: verb})
				}
			}
		}
	}
	return units, nil
}

func isWildcard(s string) bool { return strings.Contains(s, "*") }
