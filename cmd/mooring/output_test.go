package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// Columns of a status are of its nodes and of its Services, and what others wrote does not reach the terminal as it is.
func TestColumnsOfAStatus(t *testing.T) {
	status := &statusDocument{TypeMeta: cli.TypeMeta("Status"), Status: view.Status{
		Time:  time.Unix(0, 0),
		Nodes: []view.Node{{Name: "a", State: view.NodeHeld, Why: "gone\x1b[2J"}},
		Services: []view.Service{
			{Namespace: "shop", Name: "web", State: view.ServiceReady, Addresses: []string{"192.0.2.1", "2001:db8::1"}},
		},
	}}
	var text strings.Builder
	format := cli.Output("custom-columns=KIND:.kind,NAME:.name,STATE:.state,WHY:.why,ADDRESSES:.addresses[*]")
	if err := format.Print(&text, status); err != nil {
		t.Fatal(err)
	}
	want := "KIND      NAME   STATE   WHY         ADDRESSES\n" +
		"Node      a      held    gone^[[2J   <none>\n" +
		"Service   web    ready   <none>      192.0.2.1,2001:db8::1\n"
	if text.String() != want {
		t.Errorf("printed\n%swant\n%s", text.String(), want)
	}
}

// What is printed for programs says what it is.
func TestDocumentsHaveAType(t *testing.T) {
	var text strings.Builder
	format := cli.Output("jsonpath={.apiVersion} {.kind} {.nodes[0].name} {.nothing}")
	if err := format.Print(&text, &statusDocument{TypeMeta: cli.TypeMeta("Status"), Status: view.Status{Nodes: []view.Node{{Name: "a"}}}}); err != nil {
		t.Fatal(err)
	}
	if want := "mooring.dev/v1alpha1 Status a "; text.String() != want {
		t.Errorf("printed %q, want %q", text.String(), want)
	}
}
