package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// module is the import path of this folder, from which those of packages follow by their relative paths.
	module = "github.com/mooring-ccm/mooring/dev/tools/schema"
	// draft is what editors support in full; the library's own default is newer.
	draft = "http://json-schema.org/draft-07/schema#"
	// published is where the schemas are, for who has no copy.
	published = "https://raw.githubusercontent.com/mooring-ccm/mooring/main/docs/reference/"
	// durationPattern is what time.ParseDuration takes.
	durationPattern = `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$|^0$`
)

// types are those of one package, as its source describes them.
type types struct {
	// comments are the doc comments of types and fields, and values the constants of types that are written as strings.
	comments map[string]string
	values   map[string][]any
}

// newTypes reads the source of a package.
func newTypes(folder string) (*types, error) {
	var comments jsonschema.Reflector
	if err := comments.AddGoComments(module, folder, jsonschema.WithFullComment()); err != nil {
		return nil, fmt.Errorf("reading the comments of %s: %w", folder, err)
	}
	read := &types{comments: comments.CommentMap, values: map[string][]any{}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range paths {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		read.addConstants(path.Join(module, filepath.ToSlash(folder)), parsed)
	}
	return read, nil
}

// addConstants adds the values of the typed constants of a file.
func (t *types) addConstants(of string, file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		name, ok := spec.Type.(*ast.Ident)
		if !ok {
			return true
		}
		for _, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					t.values[of+"."+name.Name] = append(t.values[of+"."+name.Name], text)
				}
			}
		}
		return true
	})
}

// schema describes some types, and all that are in them, as definitions.
func (t *types) schema(file string, of ...any) *jsonschema.Schema {
	reflector := &jsonschema.Reflector{Anonymous: true, LookupComment: t.comment, Mapper: t.mapped}
	result := &jsonschema.Schema{Version: draft, ID: jsonschema.ID(published + file), Definitions: jsonschema.Definitions{}}
	for _, value := range of {
		maps.Copy(result.Definitions, reflector.Reflect(value).Definitions)
	}
	return result
}

// mapped describes types that are not written as they are declared.
func (t *types) mapped(of reflect.Type) *jsonschema.Schema {
	if of == reflect.TypeFor[metav1.Duration]() {
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	}
	if values := t.values[of.PkgPath()+"."+of.Name()]; of.Kind() == reflect.String && len(values) > 0 {
		return &jsonschema.Schema{Type: "string", Enum: values}
	}
	return nil
}

// identify says what apiVersion and kind of a file are, and puts them first.
func (t *types) identify(schema *jsonschema.Schema, name, apiVersion, kind string) {
	definition, properties := schema.Definitions[name], jsonschema.NewProperties()
	identity := []string{"apiVersion", "kind"}
	for i, value := range []string{apiVersion, kind} {
		properties.Set(identity[i], &jsonschema.Schema{Type: "string", Const: value, Description: value + ". Required."})
	}
	for field := definition.Properties.Oldest(); field != nil; field = field.Next() {
		if !slices.Contains(identity, field.Key) {
			properties.Set(field.Key, field.Value)
		}
	}
	others := slices.DeleteFunc(definition.Required, func(one string) bool { return slices.Contains(identity, one) })
	definition.Properties, definition.Required = properties, append(identity, others...)
}

// undocumented names the fields that have no comment.
func (t *types) undocumented(schema *jsonschema.Schema) error {
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(schema.Definitions)) {
		for pair := schema.Definitions[name].Properties.Oldest(); pair != nil; pair = pair.Next() {
			if pair.Value.Description == "" {
				missing = append(missing, fmt.Errorf("the field %s of %s has no comment", pair.Key, name))
			}
		}
	}
	return errors.Join(missing...)
}

// comment returns the description of a type, or of a field of it.
func (t *types) comment(of reflect.Type, field string) string {
	if of.Kind() != reflect.Struct {
		return ""
	}
	key := of.PkgPath() + "." + of.Name()
	if field == "" {
		return named(of, t.comments[key])
	}
	if comment := t.comments[key+"."+field]; comment != "" {
		return withoutSubject(field, named(of, strings.Join(strings.Fields(comment), " ")))
	}
	if documented, ok := reflect.New(of).Interface().(interface{ SwaggerDoc() map[string]string }); ok { // a type of Kubernetes
		declared, _ := of.FieldByName(field)
		name, _, _ := strings.Cut(declared.Tag.Get("json"), ",")
		return documented.SwaggerDoc()[name]
	}
	return ""
}

// word is a name as Go exports it.
var word = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)

// named replaces the Go names of a type's fields by those in the file. A word at the beginning of a sentence is none, and an
// abbreviation may mean the thing itself.
func named(of reflect.Type, comment string) string {
	names := map[string]string{}
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names[field.Name] = name
		}
	}
	var out strings.Builder
	end := 0
	for _, at := range word.FindAllStringIndex(comment, -1) {
		found := comment[at[0]:at[1]]
		name, ok := names[found]
		if !ok || at[0] == 0 || strings.HasSuffix(comment[:at[0]], ". ") || found == strings.ToUpper(found) {
			continue
		}
		out.WriteString(comment[end:at[0]] + "`" + name + "`")
		end = at[1]
	}
	return out.String() + comment[end:]
}

// subject is how a comment of a field begins: with its name.
var subject = regexp.MustCompile(`^[A-Z][A-Za-z0-9]* ((is|are) )?`)

// withoutSubject drops the name of a field from the beginning of its comment: it stands beside it.
func withoutSubject(field, comment string) string {
	if !strings.HasPrefix(comment, field+" ") {
		return comment
	}
	rest := subject.ReplaceAllString(comment, "")
	return strings.ToUpper(rest[:1]) + rest[1:]
}
