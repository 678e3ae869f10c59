// Package strict decodes YAML and JSON into structs and reports everything that does not fit at once: unknown fields, fields that are there
// twice and values of another type, each with its path and value. It replaces sigs.k8s.io/yaml and sigs.k8s.io/json (which
// k8s.io/apimachinery decodes with). UnmarshalStrict of sigs.k8s.io/yaml returns the first unknown field only; UnmarshalStrict of
// sigs.k8s.io/json returns all. But both end at the first value of a wrong type, without its path, and report nothing else then. An
// operator would correct a file one error at a time.
package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
)

// UnknownField is how the detail of an error about a field begins that does not exist.
const UnknownField = "unknown field"

// document is the path of what is wrong with the document as a whole.
var document = field.NewPath("(document)")

// YAML decodes one YAML document into the struct that into points to. Aliases, merge keys and further documents are errors.
// What fits is decoded also when errors are returned, so a caller can report what is wrong with the rest as well.
func YAML(data []byte, into any) field.ErrorList {
	root, err := parseYAML(data)
	if err != nil {
		return field.ErrorList{field.Invalid(document, field.OmitValueType{}, message.Line(err.Error(), maxShown))}
	}
	return decode(root, into)
}

// JSON decodes one JSON value into the struct that into points to, otherwise as YAML does.
func JSON(data []byte, into any) field.ErrorList {
	root, err := parseJSON(data)
	if err != nil {
		return field.ErrorList{field.Invalid(document, field.OmitValueType{}, "not JSON: "+message.Line(err.Error(), maxShown))}
	}
	return decode(root, into)
}

// Merge returns what decoding and what validation found wrong. A field that did not fit is not reported again for being empty,
// and of a document that could not be read nothing else is said. Values and texts that are long are cut.
func Merge(decoded, validated field.ErrorList) field.ErrorList {
	misfits := map[string]bool{}
	for _, e := range decoded {
		misfits[e.Field] = true
	}
	if misfits[document.String()] {
		return decoded
	}
	merged := slices.Clone(decoded)
	for _, e := range validated {
		if !misfits[e.Field] {
			merged = append(merged, bounded(e))
		}
	}
	return merged
}

// maxDetail is how many bytes the text of an error may have besides the field and the value.
const maxDetail = 1000

// bounded returns an error with a value and a text that are not too long.
func bounded(e *field.Error) *field.Error {
	cut := *e
	if text, ok := e.BadValue.(string); ok {
		cut.BadValue = shorten(text)
	}
	cut.Detail = message.Printable(e.Detail, maxDetail)
	return &cut
}

func decode(root node, into any) field.ErrorList {
	value, errs := fit(root, reflect.TypeOf(into).Elem(), nil)
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		errs = append(errs, field.InternalError(document, err))
	}
	return errs
}

type kind string

const (
	kindNull   kind = "null"
	kindBool   kind = "boolean"
	kindInt    kind = "integer"
	kindFloat  kind = "number"
	kindString kind = "string"
	kindList   kind = "list"
	kindMap    kind = "mapping"
)

// node is a value of the document before its type is known.
type node struct {
	kind   kind
	scalar any
	text   string
	items  []node
	// fields are in the order of the document, duplicates included.
	fields []member
}

type member struct {
	name  string
	value node
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// fit returns n as the value that json.Marshal turns into what t decodes, nil where it does not fit, and everything that
// does not.
func fit(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	if n.kind == kindNull {
		return nil, nil
	}
	if t.Kind() == reflect.Pointer {
		return fit(n, t.Elem(), path)
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return fitUnmarshaler(n, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return fitStruct(n, t, path)
	case reflect.Map:
		return fitMap(n, t, path)
	case reflect.Slice:
		return fitSlice(n, t, path)
	case reflect.String:
		return scalar(n, path, kindString)
	case reflect.Bool:
		return scalar(n, path, kindBool)
	case reflect.Float64:
		return fitFloat(n, path)
	default:
		return fitInteger(n, t, path)
	}
}

func scalar(n node, path *field.Path, allowed ...kind) (any, field.ErrorList) {
	if slices.Contains(allowed, n.kind) {
		return n.scalar, nil
	}
	return nil, mismatch(n, path, allowed[0])
}

func mismatch(n node, path *field.Path, want kind) field.ErrorList {
	if path == nil {
		path = document
	}
	return field.ErrorList{field.TypeInvalid(path, show(n), fmt.Sprintf("must be %s, not %s", article(want), article(n.kind)))}
}

func article(k kind) string {
	if k == kindInt {
		return "an " + string(k)
	}
	return "a " + string(k)
}

// maxShown is how many bytes of a value or of a name an error shows.
const maxShown = 200

// show returns a value as an error shows it; a list or a mapping is not repeated.
func show(n node) any {
	if n.kind == kindList || n.kind == kindMap {
		return field.OmitValueType{}
	}
	return shorten(n.text)
}

// shorten returns a value that is not too long as it is, because it is quoted where it is shown.
func shorten(text string) string {
	if len(text) <= maxShown {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	return message.Line(text, maxShown)
}

// shownName returns the name of a field as a path shows it.
func shownName(name string) string {
	if name == "" {
		return `""`
	}
	return message.Line(name, maxShown)
}

// fitFloat is for numbers, of which YAML has more than JSON: not-a-number and the infinities are no values of a setting.
func fitFloat(n node, path *field.Path) (any, field.ErrorList) {
	value, errs := scalar(n, path, kindFloat, kindInt)
	if len(errs) > 0 {
		return nil, errs
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, new(float64))
	}
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, show(n), "is out of range")}
	}
	return value, nil
}

func fitInteger(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	value, errs := scalar(n, path, kindInt)
	if len(errs) > 0 {
		return nil, errs
	}
	if err := json.Unmarshal([]byte(fmt.Sprint(value)), reflect.New(t).Interface()); err != nil {
		return nil, field.ErrorList{field.Invalid(path, show(n), "is out of range")}
	}
	return value, nil
}

// fitUnmarshaler is for types that are written as strings, such as durations.
func fitUnmarshaler(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	value, errs := scalar(n, path, kindString)
	if len(errs) > 0 {
		return nil, errs
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, show(n), message.Line(err.Error(), maxShown))}
	}
	return value, nil
}

func fitSlice(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	if n.kind != kindList {
		return nil, mismatch(n, path, kindList)
	}
	var errs field.ErrorList
	values := make([]any, len(n.items))
	for i, item := range n.items {
		value, more := fit(item, t.Elem(), index(path, i))
		values[i] = value
		errs = append(errs, more...)
	}
	return values, errs
}

func fitMap(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	if n.kind != kindMap {
		return nil, mismatch(n, path, kindMap)
	}
	var errs field.ErrorList
	values := map[string]any{}
	for _, m := range n.fields {
		at := key(path, m.name)
		if _, twice := values[m.name]; twice {
			errs = append(errs, field.Duplicate(at, show(m.value)))
			continue
		}
		value, more := fit(m.value, t.Elem(), at)
		values[m.name] = value
		errs = append(errs, more...)
	}
	return values, errs
}

func fitStruct(n node, t reflect.Type, path *field.Path) (any, field.ErrorList) {
	if n.kind != kindMap {
		return nil, mismatch(n, path, kindMap)
	}
	known := map[string]reflect.Type{}
	fieldsOf(t, known)
	var errs field.ErrorList
	values, seen := map[string]any{}, map[string]bool{}
	for _, m := range n.fields {
		at := child(path, m.name)
		fieldType, ok := known[m.name]
		if !ok {
			errs = append(errs, field.Invalid(at, show(m.value), UnknownField+"; known here: "+names(known)))
			continue
		}
		if seen[m.name] {
			errs = append(errs, field.Duplicate(at, show(m.value)))
			continue
		}
		seen[m.name] = true
		value, more := fit(m.value, fieldType, at)
		// A field that is null or does not fit is left out: not every type decodes null.
		if value != nil {
			values[m.name] = value
		}
		errs = append(errs, more...)
	}
	return values, errs
}

// fieldsOf adds the JSON names of a struct's fields, those of embedded structs included.
func fieldsOf(t reflect.Type, known map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fieldsOf(f.Type, known)
		case name != "" && name != "-":
			known[name] = f.Type
		}
	}
}

func names(known map[string]reflect.Type) string {
	sorted := make([]string, 0, len(known))
	for name := range known {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return strings.Join(sorted, ", ")
}

func child(path *field.Path, name string) *field.Path {
	name = shownName(name)
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

func index(path *field.Path, i int) *field.Path {
	if path == nil {
		return document.Index(i)
	}
	return path.Index(i)
}

func key(path *field.Path, name string) *field.Path {
	name = shownName(name)
	if path == nil {
		return field.NewPath(name)
	}
	return path.Key(name)
}
