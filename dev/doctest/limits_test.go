package doctest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limit is a row of the page of limits: a number, its unit, and the constant that has it.
var limit = regexp.MustCompile("(?m)^\\| [^|]+ \\| ([0-9,]+)(?: (bytes|KiB|MiB))? \\| `([\\w.]+)` in `([\\w./]+)` \\|$")

// TestLimits holds the numbers of the page of limits against the constants in the source.
func TestLimits(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := limit.FindAllStringSubmatch(string(page), -1)
	if all := strings.Count(string(page), "\n| ") - 1; len(rows) != all || all < 15 {
		t.Errorf("%d of %d rows are of the form of a limit", len(rows), all)
	}
	units := map[string]int64{"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}
	for _, row := range rows {
		number, err := strconv.ParseInt(strings.ReplaceAll(row[1], ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, found := constantOf(t, filepath.Join(root, row[4]), row[3]); !found || got != number*units[row[2]] {
			t.Errorf("%s in %s is %d (found: %t), and the page says %s %s", row[3], row[4], got, found, row[1], row[2])
		}
	}
}

// constantOf returns the number that a file gives to a name, or to a field of a literal, NAME.FIELD.
func constantOf(t *testing.T, path, name string) (value int64, found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name, field, _ := strings.Cut(name, ".")
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		for i, one := range spec.Names {
			if one.Name == name && i < len(spec.Values) && !found {
				value, found = numberOf(spec.Values[i], field)
			}
		}
		return true
	})
	return value, found
}

// numberOf evaluates an expression of literals, or a field of a composite literal of them.
func numberOf(expression ast.Expr, field string) (value int64, found bool) {
	if literal, is := expression.(*ast.CompositeLit); is {
		for _, element := range literal.Elts {
			if pair, is := element.(*ast.KeyValueExpr); is && types.ExprString(pair.Key) == field {
				return numberOf(pair.Value, "")
			}
		}
		return 0, false
	}
	evaluated, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(expression))
	if err != nil || evaluated.Value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(evaluated.Value))
}
