package service

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

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
