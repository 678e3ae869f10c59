package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// boundaries are the kinds that others than the manager and its operator write: the packages and the names of their types.
var boundaries = [][2]string{
	{"k8s.io/api/core/v1", "Node"}, {"k8s.io/api/core/v1", "Pod"}, {"k8s.io/api/core/v1", "Service"}, {"k8s.io/api/discovery/v1", "EndpointSlice"},
	{"k8s.io/api/coordination/v1", "Lease"}, {"k8s.io/api/certificates/v1", "CertificateSigningRequest"},
}

// listed is a package as the go tool lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// reads returns what the packages of patterns read of the boundaries' kinds, each with the packages that do: a field by its path in the API, such
// as Node.status.addresses.address; an annotation or a label by its key too, where the source has a constant; and a function of another module
// that is given the whole object. What is only written does not count.
func reads(dir string, patterns ...string) (map[string][]string, error) {
	loaded, err := load(dir, patterns)
	if err != nil {
		return nil, err
	}
	r := &reader{found: map[string][]string{}, paths: map[*types.TypeName]string{}}
	for _, of := range boundaries {
		pkg, err := loaded.imports.Import(of[0])
		if err != nil {
			return nil, err
		}
		r.note(pkg.Scope().Lookup(of[1]).Type(), of[1])
	}
	for _, one := range loaded.packages {
		r.info, r.at = one.info, one.at
		for _, file := range one.files {
			r.file(file)
		}
	}
	return r.found, nil
}

// program is packages with the types of what is in them.
type program struct {
	files    *token.FileSet
	imports  types.Importer
	packages []checked
}

// checked is one package: its path in the module, its files, and what the type checker says.
type checked struct {
	at    string
	files []*ast.File
	types *types.Package
	info  *types.Info
}

// load reads and checks the packages of patterns, without their tests.
func load(dir string, patterns []string) (*program, error) {
	listed, err := listExported(dir, patterns)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, one := range listed {
		exports[one.ImportPath] = one.Export
	}
	loaded := &program{files: token.NewFileSet()}
	loaded.imports = importer.ForCompiler(loaded.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, one := range listed {
		if one.DepOnly {
			continue
		}
		pkg := checked{at: strings.TrimPrefix(one.ImportPath, Module+"/"), info: &types.Info{
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		}}
		for _, name := range one.GoFiles {
			file, err := parser.ParseFile(loaded.files, filepath.Join(one.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			pkg.files = append(pkg.files, file)
		}
		config := &types.Config{Importer: loaded.imports, FakeImportC: true}
		if pkg.types, err = config.Check(one.ImportPath, loaded.files, pkg.files, pkg.info); err != nil {
			return nil, fmt.Errorf("%s: %w", one.ImportPath, err)
		}
		loaded.packages = append(loaded.packages, pkg)
	}
	return loaded, nil
}

// listExported lists packages and all that they import, with the files in which the compiler has left what they export.
func listExported(dir string, patterns []string) ([]listed, error) {
	command := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	var complaints bytes.Buffer
	command.Dir, command.Stderr = dir, &complaints
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, complaints.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var one listed
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, one)
	}
}

// reader collects what is read.
type reader struct {
	// paths are where in the API the types of the boundaries' kinds and of their fields are.
	paths map[*types.TypeName]string
	found map[string][]string
	// info and at are of the package that is read.
	info *types.Info
	at   string
}

// note notes where in the API a type is, and the types of its fields. A type that is in several places is in the first.
func (r *reader) note(of types.Type, path string) {
	name := declared(of)
	if name == nil || r.paths[name] != "" {
		return
	}
	fields, isStruct := name.Type().Underlying().(*types.Struct)
	if !isStruct || !strings.HasPrefix(name.Pkg().Path(), "k8s.io/api/") || name.Name() == "ObjectReference" { // which events have too
		return
	}
	r.paths[name] = path
	for i := range fields.NumFields() {
		r.note(fields.Field(i).Type(), pathOf(path, fields, i))
	}
}

// declared returns the name of a type, or of what it points to or has a list of.
func declared(of types.Type) *types.TypeName {
	switch t := types.Unalias(of).(type) {
	case *types.Pointer:
		return declared(t.Elem())
	case *types.Slice:
		return declared(t.Elem())
	case *types.Map:
		return declared(t.Elem())
	case *types.Named:
		if t.Obj().Pkg() != nil { // an error has none
			return t.Obj()
		}
	}
	return nil
}

// pathOf is the path of a field. One that is inlined is no part of it.
func pathOf(path string, fields *types.Struct, i int) string {
	name, _, _ := strings.Cut(reflect.StructTag(fields.Tag(i)).Get("json"), ",")
	if name == "" {
		return path
	}
	return path + "." + name
}

// file finds what is read in a file.
func (r *reader) file(file *ast.File) {
	var above []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			above = above[:len(above)-1]
			return true
		}
		switch n := node.(type) {
		case *ast.SelectorExpr:
			r.selector(n, above)
		case *ast.CallExpr:
			r.call(n)
		}
		above = append(above, node)
		return true
	})
}

// selector finds a field that is read.
func (r *reader) selector(n *ast.SelectorExpr, above []ast.Node) {
	selection := r.info.Selections[n]
	if selection == nil {
		return
	}
	parent := above[len(above)-1]
	if outer, partly := parent.(*ast.SelectorExpr); partly && outer.X == n && r.info.Selections[outer] != nil && r.info.Selections[outer].Kind() == types.FieldVal {
		return // the outer one says what
	}
	what := r.field(selection)
	if what == "" {
		return
	}
	index, keyed := parent.(*ast.IndexExpr)
	if keyed = keyed && index.X == n; keyed {
		if value := r.info.Types[index.Index].Value; value != nil && value.Kind() == constant.String {
			what += fmt.Sprintf("[%s]", constant.StringVal(value))
		}
		if len(above) > 1 && written(above[len(above)-2], index) {
			return
		}
	}
	if !written(parent, n) {
		r.add(what)
	}
}

// field is where in the API the field is that is selected, or that a method of all objects returns; empty if it is of no boundary's kind.
func (r *reader) field(selection *types.Selection) string {
	at, of := "", selection.Recv()
	for _, i := range selection.Index() {
		name := declared(of)
		if name == nil {
			return ""
		}
		fields, isStruct := name.Type().Underlying().(*types.Struct)
		if !isStruct || i >= fields.NumFields() {
			break
		}
		if known := r.paths[name]; known != "" {
			at = known
		}
		if selection.Kind() == types.MethodVal && i == selection.Index()[len(selection.Index())-1] {
			break
		}
		if at != "" {
			at = pathOf(at, fields, i)
		}
		of = fields.Field(i).Type()
	}
	if selection.Kind() == types.FieldVal {
		return at
	}
	getter, ok := map[string]string{"GetLabels": "labels", "GetAnnotations": "annotations", "GetName": "name", "GetNamespace": "namespace", "GetUID": "uid",
		"GetOwnerReferences": "ownerReferences", "GetCreationTimestamp": "creationTimestamp", "GetDeletionTimestamp": "deletionTimestamp", "GetFinalizers": "finalizers",
		"GetManagedFields": "managedFields"}[selection.Obj().Name()]
	if kind, _, _ := strings.Cut(at, "."); ok && kind != "" {
		return kind + ".metadata." + getter
	}
	return ""
}

// written reports whether a statement assigns to an expression.
func written(statement ast.Node, to ast.Expr) bool {
	assignment, ok := statement.(*ast.AssignStmt)
	return ok && assignment.Tok == token.ASSIGN && slices.Contains(assignment.Lhs, to)
}

// call finds a function of another module, or a method of a plugin, that is given an object.
func (r *reader) call(n *ast.CallExpr) {
	selected, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	if !ok {
		return
	}
	function, ok := r.info.Uses[selected.Sel].(*types.Func)
	if !ok || function.Pkg() == nil || strings.HasPrefix(function.Pkg().Path(), Module) {
		return
	}
	signature, pkg := function.Origin().Signature(), function.Pkg().Path()
	if signature.Recv() != nil && pkg != "k8s.io/cloud-provider" {
		return // a client or a list
	}
	for parameter := range signature.Params().Variables() {
		if name := declared(parameter.Type()); name != nil && slices.Contains(boundaries, [2]string{name.Pkg().Path(), name.Name()}) {
			r.add(fmt.Sprintf("%s by %s.%s", name.Name(), path.Base(pkg), function.Name()))
		}
	}
}

// add notes what is read, and the package that does, without the folders that say nothing.
func (r *reader) add(what string) {
	reader := r.at
	for _, folder := range []string{"internal/", "controller/", "extensions/", "providers/"} {
		reader = strings.TrimPrefix(reader, folder)
	}
	if !slices.Contains(r.found[what], reader) {
		r.found[what] = append(r.found[what], reader)
	}
}
