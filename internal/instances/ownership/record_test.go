package ownership_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func recorded(record string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationProven: record} }
}

// Only nodes whose provider ID does not show whose they are need a record, and only an answer that proves them ours is one.
func TestRecord(t *testing.T) {
	plain := ownership.Rules{ProviderName: "sim"}
	declared := ownership.Rules{ProviderName: "sim", Schemes: []string{"sim"}}
	bare := ownership.Rules{ProviderName: "sim", Schemes: []string{"sim", ownership.BareIDs}}
	for name, test := range map[string]struct {
		rules        ownership.Rules
		id, answered string
		want         string
	}{
		"a bare ID, answered":                 {plain, "i-1", "i-1", `{"provider":"sim","providerID":"i-1"}`},
		"a bare ID, found without an ID":      {plain, "i-1", "", `{"provider":"sim","providerID":"i-1"}`},
		"a bare ID, answered with another":    {plain, "i-1", "i-2", ""},
		"a bare ID beside declared schemes":   {declared, "i-1", "i-1", ""},
		"a bare ID, declared":                 {bare, "i-1", "i-1", ""},
		"another scheme, answered":            {plain, "vm://1", "vm://1", `{"provider":"sim","providerID":"vm://1"}`},
		"another scheme, found without an ID": {plain, "vm://1", "", ""},
		"another scheme beside declared ones": {declared, "vm://1", "vm://1", ""},
		"the provider's scheme":               {plain, "sim://1", "sim://1", ""},
		"the same, spelled in capitals":       {plain, "SIM://1", "SIM://1", ""},
		"no provider ID":                      {plain, "", "", ""},
		"a provider without a name":           {ownership.Rules{}, "i-1", "i-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.rules.Record(test.id, test.answered); got != test.want {
				t.Errorf("Record(%q, %q) = %s, want %s", test.id, test.answered, got, test.want)
			}
		})
	}
}

// A record says of the node that it was written for, and of no other, whose it is.
func TestARecordIsOneNodes(t *testing.T) {
	rules := ownership.Rules{ProviderName: "sim"}
	record := rules.Record("i-1", "i-1")
	for name, test := range map[string]struct {
		rules ownership.Rules
		node  *corev1.Node
		want  ownership.Owner
	}{
		"its own":                 {rules, node("i-1", recorded(record)), ownership.Ours},
		"another node's":          {ownership.Rules{ProviderName: "aws"}, node("i-2", recorded(record)), ownership.Ours},
		"on a node without an ID": {rules, node("", recorded(record)), ownership.Unproven},
		"of another provider":     {ownership.Rules{ProviderName: "aws"}, node("i-1", recorded(record)), ownership.Foreign},
		"no JSON":                 {rules, node("i-1", recorded("i-1")), ownership.Ours},
		"of a node of another's scheme": {
			ownership.Rules{ProviderName: "sim", Schemes: []string{"sim"}}, node("vm://1", recorded(rules.Record("vm://1", "vm://1"))), ownership.Foreign,
		},
		"of a provider without a name": {ownership.Rules{}, node("i-1", recorded(`{"provider":"","providerID":"i-1"}`)), ownership.Ours},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.rules.Decide(test.node); got.Owner != test.want {
				t.Errorf("owner %s (%s), want %s", got.Owner, got.Reason(), test.want)
			}
		})
	}
}

// Whatever a plugin answers, a record is written for nodes that are ours, changes nothing for this provider, and makes that node and no
// other foreign to another one.
func TestARecordIsForOtherProviders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SampledFrom([]string{"i-1", "i-2", "vm://1", "sim://1", ""})
		schemes := rapid.SliceOf(rapid.SampledFrom([]string{"sim", "vm", ""})).Draw(t, "schemes")
		rules, others := ownership.Rules{ProviderName: "sim", Schemes: schemes}, ownership.Rules{ProviderName: "other"}
		id, answered, other := ids.Draw(t, "id"), ids.Draw(t, "answered"), ids.Draw(t, "other")
		before, record := rules.Decide(node(id)), rules.Record(id, answered)
		if record != "" && before.Owner != ownership.Ours {
			t.Fatalf("the record of a node that is %s is %q after the answer %q", before.Owner, record, answered)
		}
		if after := rules.Decide(node(id, recorded(record))); after.Owner != before.Owner {
			t.Fatalf("a node that was %s is %s with the record %q", before.Owner, after.Owner, record)
		}
		if claimed := others.Decide(node(id, recorded(record))).Owner == ownership.Foreign; claimed != (record != "") {
			t.Fatalf("with the record %q the node %q is another provider's: %t", record, id, claimed)
		}
		if copied := others.Decide(node(other, recorded(record))); other != id && copied.Owner == ownership.Foreign {
			t.Fatalf("the record of %q makes %q %s", id, other, copied.Owner)
		}
	})
}
