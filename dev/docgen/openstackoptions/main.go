// Command openstackoptions writes docs/reference/openstack-config.md from the types of the config and their comments, or with --check says
// whether it is up to date.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/docgen"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// introduction is how the page begins.
//
//go:embed introduction.txt
var introduction string

func main() {
	flags := flag.NewFlagSet("openstackoptions", flag.ContinueOnError)
	source := flags.String("source", ".", "the folder of the types")
	page := docgen.Page{
		File: "../../../docs/reference/openstack-config.md", Of: "types", Generate: "./providers/openstack/config",
		Render: func() ([]byte, error) { return render(*source) },
	}
	os.Exit(docgen.Main(page, flags, os.Args[1:], os.Stderr))
}

// render returns the page: a list for each section.
func render(source string) ([]byte, error) {
	comments, err := commentsOf(source)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	page.WriteString(introduction)
	defaults := config.Defaults()
	for section, value := range reflect.ValueOf(defaults).Fields() {
		name := section.Tag.Get("conf")
		switch {
		case name == "":
			continue
		case section.Type.Kind() == reflect.Map:
			name, value = name+` "NAME"`, reflect.Zero(section.Type.Elem())
		}
		fmt.Fprintf(&page, "\n## [%s]\n\n%s\n\n", name, comments[declaring(section)])
		for option, value := range value.Fields() {
			meaning := comments[declaring(section)+"."+option.Name]
			if meaning == "" {
				return nil, fmt.Errorf("the option %s of [%s] has no comment", option.Name, name)
			}
			kind := " (" + kindOf(value) + shown(value) + ")"
			if kind == " (string)" {
				kind = ""
			}
			fmt.Fprintf(&page, "- `%s`%s: %s\n", option.Tag.Get("conf"), kind, meaning)
		}
	}
	return []byte(page.String()), nil
}

// declaring is the name of the type whose fields are the options of a section.
func declaring(section reflect.StructField) string {
	if section.Type.Kind() == reflect.Map {
		return section.Type.Elem().Name()
	}
	return section.Type.Name()
}

// kindOf says how a value is written.
func kindOf(value reflect.Value) string {
	switch value.Interface().(type) {
	case config.Secret:
		return "secret"
	case time.Duration:
		return "duration"
	case bool:
		return "boolean"
	case int:
		return "number"
	case []string:
		return "string, several times"
	case string:
		return "string"
	default:
		return "CIDRs"
	}
}

// shown is a default as it would be written.
func shown(value reflect.Value) string {
	if value.IsZero() && value.Kind() != reflect.Bool {
		return ""
	}
	return fmt.Sprintf(", default `%v`", value.Interface())
}

// commentsOf returns the comments of types, and of their fields as TYPE.FIELD, each in one line.
func commentsOf(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			declaration, ok := node.(*ast.GenDecl)
			if !ok || declaration.Tok != token.TYPE {
				return true
			}
			for _, spec := range declaration.Specs {
				named := spec.(*ast.TypeSpec)
				comments[named.Name.Name] = withoutSubject(named.Name.Name, declaration.Doc.Text())
				if of, ok := named.Type.(*ast.StructType); ok {
					for _, field := range of.Fields.List {
						for _, name := range field.Names {
							comments[named.Name.Name+"."+name.Name] = oneLine(field.Doc.Text())
						}
					}
				}
			}
			return false
		})
	}
	return comments, nil
}

// withoutSubject drops the name of a type, and "is" behind it, from the beginning of its comment.
func withoutSubject(name, comment string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(oneLine(comment), name+" "), "is ")
	if rest == "" {
		return ""
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func oneLine(comment string) string { return strings.Join(strings.Fields(comment), " ") }
