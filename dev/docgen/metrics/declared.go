package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// metric is one family as the source declares it.
type metric struct {
	name, kind, help string
	labels           []string
}

// reader reads declarations of metrics.
type reader struct {
	// names are the constants of internal/names, which declarations may use.
	names map[string]string
}

// declaredIn returns the metrics of a folder and those below it, by name.
func (r reader) declaredIn(root, folder string) ([]metric, error) {
	found := map[string]metric{}
	files := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "metric" {
			return fs.SkipDir // the factory itself declares none
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		metrics, err := r.declaredBy(files, parsed)
		for _, declared := range metrics {
			found[declared.name] = declared
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", folder, err)
	}
	result := make([]metric, 0, len(found))
	for _, declared := range found {
		result = append(result, declared)
	}
	slices.SortFunc(result, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return result, nil
}

// declaredBy returns the metrics of one file: calls of prometheus.NewDesc, of functions that take options, and of a metric.Factory.
func (r reader) declaredBy(files *token.FileSet, file *ast.File) ([]metric, error) {
	var metrics []metric
	var failure error
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || failure != nil {
			return failure == nil
		}
		declared, err := r.declaredAt(call)
		if err != nil {
			failure = fmt.Errorf("%s: %w", files.Position(call.Pos()), err)
		}
		if declared != nil {
			metrics = append(metrics, *declared)
		}
		return true
	})
	return metrics, failure
}

// declaredAt returns the metric that a call declares, nil for other calls.
func (r reader) declaredAt(call *ast.CallExpr) (*metric, error) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(selector.Sel.Name, "New") || len(call.Args) == 0 {
		return nil, nil
	}
	declared := metric{kind: kindOf(selector.Sel.Name)}
	var err error
	switch options, isLiteral := call.Args[0].(*ast.CompositeLit); {
	case selector.Sel.Name == "NewDesc":
		declared.name, declared.help, err = r.described(call)
		if declared.kind = "gauge"; strings.HasSuffix(declared.name, "_total") {
			declared.kind = "counter"
		}
	case isLiteral && isOptions(options):
		declared.name, declared.help, declared.labels, err = r.fromOptions(options)
	case isFactory(selector.X):
		declared.name, declared.help, err = r.described(call)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, argument := range call.Args[1:] {
		declared.labels = append(declared.labels, r.texts(argument)...)
	}
	if isFactory(selector.X) {
		for _, argument := range call.Args[min(2, len(call.Args)):] {
			if label, err := r.text(argument); err == nil { // no text: the buckets
				declared.labels = append(declared.labels, label)
			}
		}
	}
	return &declared, nil
}

// isFactory reports whether metrics are made by an expression that takes no options: a metric.Factory has the name factory.
func isFactory(expression ast.Expr) bool {
	of, ok := expression.(*ast.Ident)
	return ok && of.Name == "factory"
}

// kindOf reads the kind off the name of the function: NewCounterVec makes counters.
func kindOf(function string) string {
	kind := strings.TrimPrefix(function, "New")
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Vec"), "Func"))
}

// isOptions reports whether a literal is prometheus.CounterOpts or one of its kin.
func isOptions(literal *ast.CompositeLit) bool {
	selector, ok := literal.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "prometheus" && strings.HasSuffix(selector.Sel.Name, "Opts") && selector.Sel.Name != "HandlerOpts"
}

func (r reader) described(call *ast.CallExpr) (name, help string, err error) {
	if len(call.Args) < 2 {
		return "", "", fmt.Errorf("NewDesc has %d arguments", len(call.Args))
	}
	if name, err = r.text(call.Args[0]); err != nil {
		return "", "", fmt.Errorf("name: %w", err)
	}
	if help, err = r.text(call.Args[1]); err != nil {
		return "", "", fmt.Errorf("help of %s: %w", name, err)
	}
	return name, help, nil
}

func (r reader) fromOptions(literal *ast.CompositeLit) (name, help string, labels []string, err error) {
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := field.Key.(*ast.Ident).Name; key {
		case "Name":
			name, err = r.text(field.Value)
		case "Help":
			help, err = r.text(field.Value)
		case "ConstLabels":
			labels = r.texts(field.Value)
		case "Namespace", "Subsystem":
			err = fmt.Errorf("%s: the name is to be written out", key)
		}
		if err != nil {
			return "", "", nil, err
		}
	}
	return name, help, labels, nil
}

// text evaluates a string that is written out, perhaps in pieces, or that is a constant of internal/names.
func (r reader) text(expression ast.Expr) (string, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		left, err := r.text(e.X)
		if err != nil {
			return "", err
		}
		right, err := r.text(e.Y)
		return left + right, err
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && of.Name == "names" && r.names[e.Sel.Name] != "" {
			return r.names[e.Sel.Name], nil
		}
	}
	return "", fmt.Errorf("the text is not written out but a %T", expression)
}

// texts returns the strings of a list, or the keys of a map: label names.
func (r reader) texts(expression ast.Expr) []string {
	literal, ok := expression.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	var found []string
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Key
		}
		if one, err := r.text(element); err == nil {
			found = append(found, one)
		}
	}
	return found
}
