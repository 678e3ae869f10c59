package service

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A provider that calls for a Service which is served has it ensured again, and one that knows nothing of it has nothing done.
func TestAProviderHasAServiceEnsuredAgain(t *testing.T) {
	s, served, other := newStates(), types.NamespacedName{Name: "served"}, types.NamespacedName{Name: "other"}
	s.change(served, func(known *state) { known.made = &made{ensured: true} })
	if !s.retryNow(served) || s.retryNow(other) {
		t.Error("the wrong Services are due")
	}
	known, _ := s.get(served)
	if why := reasonsToEnsure(desired{}, observed{made: known.made, drift: known.drift}); len(why) == 0 {
		t.Error("nothing has the plugin look at the load balancer")
	}
}

// A state is changed by the transitions of state.go only, and what sends events changes none. The compiler cannot see that within a
// package.
func TestOneFileChangesStates(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of := ""
			switch x := call.X.(type) {
			case *ast.SelectorExpr:
				of = x.Sel.Name
			case *ast.Ident:
				of = x.Name
			}
			change := call.Sel.Name == "change" || call.Sel.Name == "forget" || call.Sel.Name == "byName"
			switch {
			case name == "state.go" && change && of == "s":
				changes++
			case of == "states" && change:
				t.Errorf("%s uses %s.%s: give state.go a transition that says what has happened", name, of, call.Sel.Name)
			case of == "states" && name == "events.go" && call.Sel.Name != "counts":
				t.Errorf("events.go uses states.%s: it reports, and what it needs is handed to it", call.Sel.Name)
			}
			return true
		})
	}
	if changes < 15 {
		t.Errorf("%d uses found in state.go: this test looks for the wrong names", changes)
	}
}
