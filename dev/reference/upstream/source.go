package upstream

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Module returns the folder of a module in the cache, and its version.
func Module(ctx context.Context, module string) (dir, version string, err error) {
	output, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", module).Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module %s: %w", module, err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(output)), " ")
	return dir, version, nil
}

// Package is a package of the reference with its tests, parsed.
type Package struct {
	// Name is the last element of its path.
	Name  string
	scope *scope
	tests []*ast.FuncDecl
	// hooks stand for functions of the package that no evaluation may enter.
	hooks map[string]func(e *evaluation, args []ast.Expr, in *scope) ([]reflect.Value, error)
}

// file is what the names of other packages mean in a file: their import paths.
type file map[string]string

// Parse reads the package in a folder.
func Parse(dir string) (*Package, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read a package: %w", err)
	}
	p := &Package{Name: filepath.Base(dir), scope: &scope{names: map[string]*binding{}}, hooks: hooks}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse a file of the reference: %w", err)
		}
		p.declare(parsed, strings.HasSuffix(name, "_test.go"))
	}
	return p, nil
}

// declare keeps what a file declares.
func (p *Package) declare(parsed *ast.File, test bool) {
	imports := file{}
	for _, one := range parsed.Imports {
		location, _ := strconv.Unquote(one.Path.Value)
		name := path.Base(location)
		if location == "k8s.io/cloud-provider" {
			name = "cloudprovider"
		}
		if one.Name != nil {
			name = one.Name.Name
		}
		imports[name] = location
	}
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				continue
			}
			if test && strings.HasPrefix(decl.Name.Name, "Test") {
				p.tests = append(p.tests, decl)
			}
			p.scope.names[decl.Name.Name] = &binding{file: imports, function: &closure{name: decl.Name.Name, typ: decl.Type, body: decl.Body, file: imports}}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.scope.names[spec.Name.Name] = &binding{file: imports, typ: spec.Type}
				case *ast.ValueSpec:
					for i, name := range spec.Names {
						if i < len(spec.Values) {
							p.scope.names[name.Name] = &binding{file: imports, expr: spec.Values[i], typ: spec.Type}
						}
					}
				}
			}
		}
	}
}

// Test is one test function with its table, if it has one.
type Test struct {
	Package *Package
	Name    string
	decl    *ast.FuncDecl
	imports file
	table   *ast.CompositeLit
	// before are the statements before the one with the table.
	before []ast.Stmt
}

// Tests returns the test functions of the package in the order of their file.
func (p *Package) Tests() []*Test {
	tests := make([]*Test, 0, len(p.tests))
	for _, decl := range p.tests {
		test := &Test{Package: p, Name: decl.Name.Name, decl: decl, imports: p.scope.names[decl.Name.Name].file, before: decl.Body.List}
		for i, statement := range decl.Body.List {
			if test.table = tableIn(statement); test.table != nil {
				test.before = decl.Body.List[:i]
				break
			}
		}
		tests = append(tests, test)
	}
	return tests
}

// tableIn returns the first literal of a slice of structs that the test itself declares, in a statement that is no function.
func tableIn(statement ast.Stmt) (table *ast.CompositeLit) {
	ast.Inspect(statement, func(node ast.Node) bool {
		literal, is := node.(*ast.CompositeLit)
		if table != nil || !is {
			_, function := node.(*ast.FuncLit)
			return table == nil && !function
		}
		if slice, is := literal.Type.(*ast.ArrayType); is {
			switch element := slice.Elt.(type) {
			case *ast.StructType:
				table = literal
			case *ast.Ident:
				if element.Name == "testCase" {
					table = literal
				}
			}
		}
		return false
	})
	return table
}

// Case is one row of a table, or a test without a table.
type Case struct {
	Test *Test
	// Index counts from zero. Name is what the table calls the case, empty for a test without a table.
	Index int
	Name  string

	fields map[string]ast.Expr
}

// fields are the names of the table's fields, if the table itself declares them.
func (t *Test) fields() []string {
	var names []string
	if slice, is := t.table.Type.(*ast.ArrayType); is {
		if typ, is := slice.Elt.(*ast.StructType); is {
			for _, field := range typ.Fields.List {
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// nameFields are the fields of a table with the name of a case.
var nameFields = []string{"name", "desc", "description", "testName"}

// Cases returns the rows of the table. A test without a table is one case, whose fields are the test's variables.
func (t *Test) Cases() []*Case {
	if t.table == nil {
		return []*Case{{Test: t}}
	}
	names := t.fields()
	cases := make([]*Case, 0, len(t.table.Elts))
	for i, element := range t.table.Elts {
		literal, is := element.(*ast.CompositeLit)
		if !is {
			continue
		}
		one := &Case{Test: t, Index: i, fields: map[string]ast.Expr{}}
		for j, value := range literal.Elts {
			if pair, is := value.(*ast.KeyValueExpr); is {
				one.fields[pair.Key.(*ast.Ident).Name] = pair.Value //nolint:forcetypeassert // a field of a struct
			} else if j < len(names) {
				one.fields[names[j]] = value
			}
		}
		for _, field := range nameFields {
			if text, is := one.fields[field].(*ast.BasicLit); is {
				one.Name, _ = strconv.Unquote(text.Value)
			}
		}
		cases = append(cases, one)
	}
	return cases
}

// Reading evaluates the fields of one case. Each has variables of its own: what one changes no other sees.
type Reading struct {
	Case       *Case
	evaluation *evaluation
	scope      *scope
}

// Read begins to read a case: it evaluates the test up to its table as far as it can.
func (c *Case) Read() *Reading {
	e := &evaluation{pkg: c.Test.Package}
	inner := &scope{outer: c.Test.Package.scope, file: c.Test.imports, names: map[string]*binding{}}
	e.leniently = true
	_, _ = e.block(c.Test.before, inner) // a value that fails is missing, and reading it says why
	e.leniently = false
	return &Reading{Case: c, evaluation: e, scope: inner}
}

// Has says that the row sets a field.
func (r *Reading) Has(field string) bool { return r.Case.fields[field] != nil }

// Define sets a variable of the test.
func (r *Reading) Define(name string, value any) { r.scope.define(name, reflect.ValueOf(value), nil) }

// Calls returns the arguments of each call of a function that a hook keeps.
func (r *Reading) Calls(function string) [][]any {
	return slices.DeleteFunc(slices.Clone(r.evaluation.calls), func(call []any) bool { return call[0] != function })
}

// Value returns a field of the row, or a variable of the test, as a type. A field that the row does not set is the zero value.
func Value[T any](r *Reading, name string) (T, error) {
	var zero T
	expr := r.Case.fields[name]
	if expr == nil && r.Case.Test.table != nil && (r.scope.find(name) == nil || slices.Contains(r.Case.Test.fields(), name)) {
		return zero, nil
	}
	if expr == nil {
		expr = ast.NewIdent(name)
	}
	value, err := r.evaluation.expr(expr, r.scope, reflect.TypeFor[T]())
	if err == nil {
		value, err = convert(value, reflect.TypeFor[T](), r.evaluation)
	}
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	result, _ := value.Interface().(T) // nil of an interface stays one
	return result, nil
}

// Call calls the function that a field holds, and returns its first result of a type. No field is no result.
func Call[T any](r *Reading, name string, args ...any) ([]T, error) {
	expr := r.Case.fields[name]
	if expr == nil {
		return nil, nil
	}
	function, err := r.evaluation.expr(expr, r.scope, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	called, is := function.Interface().(*closure)
	if !is {
		return nil, fmt.Errorf("%s is no function", name)
	}
	values := make([]reflect.Value, len(args))
	for i, arg := range args {
		values[i] = reflect.ValueOf(arg)
	}
	results, err := r.evaluation.call(called, values)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var wanted []T
	for _, result := range results {
		if result.IsValid() && result.CanInterface() {
			if value, is := result.Interface().(T); is {
				wanted = append(wanted, value)
			}
		}
	}
	return wanted, nil
}

// Local returns the value of the last variable of a name that any part of the test declares, functions within it too.
func Local[T any](r *Reading, name string) (T, error) {
	var zero T
	var found ast.Expr
	ast.Inspect(r.Case.Test.decl, func(node ast.Node) bool {
		if assign, is := node.(*ast.AssignStmt); is && assign.Tok == token.DEFINE && len(assign.Lhs) == len(assign.Rhs) {
			for i, left := range assign.Lhs {
				if ident, is := left.(*ast.Ident); is && ident.Name == name {
					found = assign.Rhs[i]
				}
			}
		}
		return true
	})
	if found == nil {
		return zero, fmt.Errorf("%s: no variable of this name", name)
	}
	value, err := r.evaluation.expr(found, r.scope, reflect.TypeFor[T]())
	if err == nil {
		value, err = convert(value, reflect.TypeFor[T](), r.evaluation)
	}
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	result, _ := value.Interface().(T)
	return result, nil
}

// Structs returns a field that is a slice of a type of the test: each element by the names of its fields.
func Structs(r *Reading, name string) ([]map[string]any, error) {
	expr := r.Case.fields[name]
	if expr == nil {
		return nil, nil
	}
	value, err := r.evaluation.expr(expr, r.scope, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if value.Kind() != reflect.Slice || value.Type().Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is no slice of structs", name)
	}
	var all []map[string]any
	for i := range value.Len() {
		fields := map[string]any{}
		for j := range value.Index(i).NumField() {
			fields[strings.TrimPrefix(value.Type().Elem().Field(j).Name, prefix)] = value.Index(i).Field(j).Interface()
		}
		all = append(all, fields)
	}
	return all, nil
}

// Opaque returns a value that stands for a controller: what is done with it has no effect but that Calls has it.
func Opaque() any { return &opaque{} }
