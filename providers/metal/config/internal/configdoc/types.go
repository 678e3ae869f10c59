package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// structure is a type of the config that has fields.
type structure struct {
	name, doc string
	fields    []member
}

// member is one field of a structure. One without a name is embedded.
type member struct {
	name, goName, doc string
	kind              ast.Expr
}

// types are those of package config.
type types struct {
	structures map[string]structure
	// strings are the types that are written as strings, with the values that there are constants for.
	strings map[string][]string
}

// typesOf reads the types of a package.
func typesOf(folder string) (types, error) {
	found := types{structures: map[string]structure{}, strings: map[string][]string{}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return found, err
	}
	files := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return found, err
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				found.add(general)
			}
		}
	}
	if len(found.structures) == 0 {
		return found, fmt.Errorf("%s declares no types", folder)
	}
	return found, nil
}

func (t types) add(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc.Text()
			if doc == "" {
				doc = declaration.Doc.Text()
			}
			t.addType(spec, doc)
		case *ast.ValueSpec:
			t.addConstant(declaration.Tok, spec)
		}
	}
}

func (t types) addType(spec *ast.TypeSpec, doc string) {
	switch kind := spec.Type.(type) {
	case *ast.StructType:
		declared := structure{name: spec.Name.Name, doc: doc}
		for _, field := range kind.Fields.List {
			if m, ok := memberOf(field); ok {
				declared.fields = append(declared.fields, m)
			}
		}
		t.structures[declared.name] = declared
	case *ast.Ident:
		if kind.Name == "string" {
			t.strings[spec.Name.Name] = append([]string{}, t.strings[spec.Name.Name]...)
		}
	}
}

// memberOf returns a field that is in the file.
func memberOf(field *ast.Field) (member, bool) {
	if field.Tag == nil {
		return member{}, false
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return member{}, false
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "-" {
		return member{}, false
	}
	m := member{name: name, doc: field.Doc.Text(), kind: field.Type}
	if len(field.Names) > 0 {
		m.goName = field.Names[0].Name
	}
	return m, true
}

// addConstant notes a value of a type that is written as a string.
func (t types) addConstant(keyword token.Token, spec *ast.ValueSpec) {
	of, ok := spec.Type.(*ast.Ident)
	if keyword != token.CONST || !ok {
		return
	}
	for _, value := range spec.Values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				t.strings[of.Name] = append(t.strings[of.Name], text)
			}
		}
	}
}
