package routes

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

func TestPlanned(t *testing.T) {
	a, b, c := route{"10.1.0.0/24", "10.0.0.1"}, route{"10.1.1.0/24", "10.0.0.2"}, route{"10.1.2.0/24", "10.0.0.3"}
	s := planned([]route{a, b, a}, []route{b, c, c})
	if !slices.Equal(s.add, []route{a, b}) || !slices.Equal(s.remove, []route{c}) {
		t.Errorf("%+v", s)
	}
	result, changed := s.applied([]route{b, c})
	if !changed || !slices.Equal(result, []route{b, a}) {
		t.Errorf("%v, %t", result, changed)
	}
	if again, changed := s.applied(result); changed || !slices.Equal(again, result) {
		t.Errorf("over its own result it plans %v", again)
	}
}

func TestPairsAfter(t *testing.T) {
	foreign := pair{Address: "192.168.0.0/16", MAC: "fa:16:3e:00:00:01"}
	pairs, changed := pairsAfter([]pair{foreign, {Address: "10.1.0.0/24"}}, []string{"10.1.1.0/24"}, []string{"10.1.0.0/24", "10.9.0.0/24"})
	if want := []pair{foreign, {Address: "10.1.1.0/24"}}; !changed || !slices.Equal(pairs, want) {
		t.Errorf("%v, %t", pairs, changed)
	}
	if again, changed := pairsAfter(pairs, []string{"10.1.1.0/24"}, []string{"10.1.0.0/24"}); changed {
		t.Errorf("over its own result it plans %v", again)
	}
}

func TestNextHop(t *testing.T) {
	addresses := []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: "h"}, {Type: v1.NodeExternalIP, Address: "203.0.113.1"}, {Type: v1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: v1.NodeInternalIP, Address: "10.0.0.2"}, {Type: v1.NodeInternalIP, Address: "fd00::1"},
	}
	for destination, want := range map[string]string{"10.1.0.0/24": "10.0.0.1", "fd01::/64": "fd00::1"} {
		if got, err := nextHop(destination, addresses); got != want || err != nil {
			t.Errorf("%s: %s, %v", destination, got, err)
		}
	}
	if _, err := nextHop("fd01::/64", addresses[:3]); err == nil || provider.IsTerminal(err) {
		t.Errorf("without an address of the family: %v", err)
	}
	if _, err := nextHop("ten", addresses); !provider.IsTerminal(err) {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	of := route{"10.1.0.0/24", "10.0.0.1"}
	if got, err := parseName(of.name()); got != of || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseName("10.1.0.0/24"); !provider.IsTerminal(err) {
		t.Errorf("%v", err)
	}
}
