package architecture

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// told are the names of constants that hold what an object is told: the reason of an event or of a condition, or its type.
var told = regexp.MustCompile(`^(Reason|Event|Condition)[A-Z]`)

// toldTypes are types whose constants hold such, whatever their names.
var toldTypes = []string{"Reason", "HoldReason", "NoteReason", "problem"}

// toldBy returns what the constants of packages tell objects, by value, with where each is declared. A constant may be made of
// another one of the same folders, or of one that the package names shares.
func toldBy(files *token.FileSet, parsed []*ast.File, shared map[string]string) (map[string]string, error) {
	constants, wanted := map[string]string{}, map[string]ast.Expr{}
	for _, file := range parsed {
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if i >= len(value.Values) {
						continue
					}
					if text, ok := textOf(value.Values[i]); ok {
						constants[name.Name] = text
					}
					if name.IsExported() && told.MatchString(name.Name) || ofToldType(value.Type) {
						wanted[name.Name] = value.Values[i]
					}
				}
			}
		}
	}
	found := map[string]string{}
	for name, value := range wanted {
		text, ok := textOf(value)
		if !ok {
			text, ok = constants[convertedFrom(value)]
		}
		if !ok {
			text, ok = shared[sharedName(value)]
		}
		if !ok {
			return nil, fmt.Errorf("%s: what %s says is not written out", files.Position(value.Pos()), name)
		}
		found[text] = files.Position(value.Pos()).String()
	}
	return found, nil
}

func textOf(value ast.Expr) (string, bool) {
	literal, ok := value.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

func ofToldType(expression ast.Expr) bool {
	name, ok := expression.(*ast.Ident)
	return ok && slices.Contains(toldTypes, name.Name)
}

// convertedFrom returns the name of the constant that string(x) and string(other.X) convert.
func convertedFrom(value ast.Expr) string {
	call, ok := value.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	switch of := call.Args[0].(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

// sharedName returns the name X of names.X.
func sharedName(value ast.Expr) string {
	selector, ok := value.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if of, ok := selector.X.(*ast.Ident); !ok || of.Name != "names" {
		return ""
	}
	return selector.Sel.Name
}

// literalReasons calls found with the reason of each event whose reason is written where the event is, and not as a constant.
func literalReasons(file *ast.File, found func(reason string, at token.Pos)) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) < 4 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(selector.Sel.Name, "Event") {
			return true
		}
		if reason, ok := textOf(call.Args[2]); ok {
			found(reason, call.Pos())
		}
		return true
	})
}
