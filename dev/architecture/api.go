package architecture

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// public are the packages that vendors import. What they export is listed in the folder api, so each change of it is seen as
// such (ADR 66).
var public = []string{"ccm", "ccm/plan", "extensions", "extensions/autoscaler", "extensions/reference", "extensions/servingcertificate", "provider", "provider/conformance", "provider/profiles", "providers/sim/api", "providers/sim/cloudsim",
	"providers/sim/simtest", "vendortool"}

// exported lists what the package in a directory exports, a line for each function, method, constant, variable, type and exported field or
// method of a type, in alphabetical order. It is in the manner of the files in the folder api of the Go project.
func exported(dir string) ([]string, error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("the package in %s: %w", dir, err)
	}
	var l listing
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				l.function(d)
			case *ast.GenDecl:
				l.declaration(d)
			}
		}
	}
	slices.Sort(l)
	return l, nil
}

// listing are the lines so far.
type listing []string

func (l *listing) add(format string, values ...any) { *l = append(*l, fmt.Sprintf(format, values...)) }

func (l *listing) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	receiver := ""
	if d.Recv != nil {
		receiver = source(d.Recv.List[0].Type)
		if !ast.IsExported(strings.TrimLeft(receiver, "*")) {
			return
		}
		receiver = "(" + receiver + ") "
	}
	l.add("func %s%s%s", receiver, d.Name, signature(d.Type))
}

func (l *listing) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				l.declaredType(s)
			}
		case *ast.ValueSpec:
			l.values(d.Tok, s)
		}
	}
}

// values lists constants with their values, on which programs may be built, and variables without.
func (l *listing) values(kind token.Token, s *ast.ValueSpec) {
	for i, name := range s.Names {
		if !name.IsExported() {
			continue
		}
		text := kind.String() + " " + name.Name
		if s.Type != nil {
			text += " " + source(s.Type)
		}
		if kind == token.CONST && i < len(s.Values) {
			text += " = " + source(s.Values[i])
		}
		l.add("%s", text)
	}
}

func (l *listing) declaredType(s *ast.TypeSpec) {
	name := s.Name.Name
	if s.TypeParams != nil {
		name += "[" + fields(s.TypeParams) + "]"
	}
	if s.Assign.IsValid() {
		name += " ="
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		l.add("type %s struct", name)
		l.members(name+" struct", t.Fields)
	case *ast.InterfaceType:
		l.add("type %s interface", name)
		l.members(name+" interface", t.Methods)
	case *ast.FuncType:
		l.add("type %s func%s", name, signature(t))
	default:
		l.add("type %s %s", name, source(t))
	}
}

// members lists the exported fields of a struct, or the methods of an interface. It lists unexported methods too, because no other package can
// implement an interface that has one.
func (l *listing) members(of string, list *ast.FieldList) {
	for _, field := range list.List {
		if len(field.Names) == 0 {
			l.add("type %s, embedded %s", of, source(field.Type))
		}
		for _, name := range field.Names {
			if method, is := field.Type.(*ast.FuncType); is && strings.HasSuffix(of, " interface") {
				l.add("type %s, %s%s", of, name, signature(method))
			} else if name.IsExported() {
				l.add("type %s, %s %s", of, name, source(field.Type))
			}
		}
	}
}

func fields(list *ast.FieldList) string {
	var all []string
	for _, field := range list.List {
		for _, name := range field.Names {
			all = append(all, name.Name+" "+source(field.Type))
		}
	}
	return strings.Join(all, ", ")
}

// signature is the type of a function without the word func. It leaves out the names of parameters and results, because callers do not depend on
// them.
func signature(t *ast.FuncType) string {
	types := func(list *ast.FieldList) []string {
		var all []string
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			for range max(1, len(field.Names)) {
				all = append(all, source(field.Type))
			}
		}
		return all
	}
	text, results := "("+strings.Join(types(t.Params), ", ")+")", types(t.Results)
	if t.TypeParams != nil {
		text = "[" + fields(t.TypeParams) + "]" + text
	}
	switch len(results) {
	case 0:
		return text
	case 1:
		return text + " " + results[0]
	default:
		return text + " (" + strings.Join(results, ", ") + ")"
	}
}

// source is a node as Go, in one line.
func source(node ast.Node) string {
	var text bytes.Buffer
	if err := printer.Fprint(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text.String()), " ")
}
