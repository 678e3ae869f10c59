package architecture

import (
	"go/ast"
	"go/token"
	"strconv"
	"unicode"
)

// logKeys calls found with each key of each log call in a file. Log calls are Info, Error and WithValues of a logr.Logger, and functions that return
// keys and values for them. A key that is not a literal counts as an empty string, because no search would find it.
func logKeys(file *ast.File, found func(key string, at token.Pos)) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if pairs, ok := pairsOf(n); ok {
				keysIn(n, pairs, found)
			}
		case *ast.FuncDecl:
			if n.Body != nil && returnsPairs(n.Type) {
				keysReturnedBy(n.Body, found)
			}
		}
		return true
	})
}

// pairsOf returns the keys and values of a call, if it is one that logs. What a call logs is told by its shape: Info of a text,
// Error of an error and a text, WithValues.
func pairsOf(call *ast.CallExpr) ([]ast.Expr, bool) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	if of, ok := selector.X.(*ast.Ident); ok && (of.Name == "http" || of.Name == "sink") { // a sink hands on what was logged
		return nil, false
	}
	switch name, count := selector.Sel.Name, len(call.Args); {
	case name == "WithValues":
		return call.Args, true
	case name == "Info" && count >= 1:
		return call.Args[1:], true
	case name == "Error" && count >= 2:
		return call.Args[2:], true
	}
	return nil, false
}

// keysIn calls found with the keys among the arguments of a call. A single argument with dots is a call of a function that returns pairs. The pairs
// that this function gets as its own arguments count here.
func keysIn(call *ast.CallExpr, pairs []ast.Expr, found func(string, token.Pos)) {
	if call.Ellipsis.IsValid() {
		if inner, ok := pairs[len(pairs)-1].(*ast.CallExpr); ok && len(inner.Args)%2 == 0 {
			everySecond(inner.Args, found)
		}
		pairs = pairs[:len(pairs)-1]
	}
	everySecond(pairs, found)
}

// returnsPairs reports whether a function returns nothing but an []any.
func returnsPairs(function *ast.FuncType) bool {
	return function.Results != nil && len(function.Results.List) == 1 && isAnys(function.Results.List[0].Type)
}

func isAnys(expression ast.Expr) bool {
	array, ok := expression.(*ast.ArrayType)
	if !ok || array.Len != nil {
		return false
	}
	element, ok := array.Elt.(*ast.Ident)
	return ok && element.Name == "any"
}

// keysReturnedBy calls found with the keys in literals of []any and in what is appended to such.
func keysReturnedBy(body *ast.BlockStmt, found func(string, token.Pos)) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CompositeLit:
			if isAnys(n.Type) {
				everySecond(n.Elts, found)
			}
		case *ast.CallExpr:
			if of, ok := n.Fun.(*ast.Ident); ok && of.Name == "append" && !n.Ellipsis.IsValid() && len(n.Args)%2 == 1 {
				everySecond(n.Args[1:], found)
			}
		}
		return true
	})
}

// everySecond calls found with the keys of pairs.
func everySecond(pairs []ast.Expr, found func(string, token.Pos)) {
	for i := 0; i < len(pairs); i += 2 {
		key := ""
		if literal, ok := pairs[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			key, _ = strconv.Unquote(literal.Value) // what the parser has taken for a string is one
		}
		found(key, pairs[i].Pos())
	}
}

// wellFormedKey reports whether a key is one word in camel case, such as providerID.
func wellFormedKey(key string) bool {
	for i, letter := range key {
		if letter > unicode.MaxASCII || !unicode.IsLetter(letter) || i == 0 && !unicode.IsLower(letter) {
			return false
		}
	}
	return key != ""
}
