package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"strings"

	"github.com/invopop/jsonschema"
)

// introduction is how the page begins.
//
//go:embed metal-introduction.txt
var introduction string

// longMeaning is from how many bytes on a text stands once, and other types refer to it.
const longMeaning = 60

// metalPage returns the reference page of the bare-metal config: a section for each type, followed by those of its fields.
func metalPage(schema *jsonschema.Schema) ([]byte, error) {
	var page bytes.Buffer
	page.WriteString(introduction)
	queue := []string{"CloudConfig", "MachineList"}
	explained := map[string]string{}
	met := map[string]bool{"CloudConfig": true, "MachineList": true, "LabelSelector": true}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		definition, found := schema.Definitions[name]
		if !found {
			return nil, fmt.Errorf("there is no type %s", name)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n", name, definition.Description)
		var inside []string
		for field := definition.Properties.Oldest(); field != nil; field = field.Next() {
			meaning := escape(field.Value.Description)
			if first, again := explained[field.Key+meaning]; again && len(meaning) > longMeaning {
				meaning = fmt.Sprintf("As in [%s](#%s).", first, strings.ToLower(first))
			} else {
				explained[field.Key+meaning] = name
			}
			kind := " (" + kindOf(field.Value) + ")"
			if kind == " (string)" {
				kind = ""
			}
			fmt.Fprintf(&page, "- `%s`%s: %s\n", field.Key, kind, meaning)
			if refers := reference(field.Value); refers != "" && !met[refers] {
				met[refers] = true
				inside = append(inside, refers)
			}
		}
		queue = append(inside, queue...)
	}
	return page.Bytes(), nil
}

// kindOf says how a field is written.
func kindOf(field *jsonschema.Schema) string {
	switch {
	case strings.HasSuffix(field.Ref, "/LabelSelector"):
		return "label selector"
	case field.Ref != "":
		name := path.Base(field.Ref)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(field.Enum) > 0:
		values := make([]string, len(field.Enum))
		for i, value := range field.Enum {
			values[i] = fmt.Sprintf("`%s`", value)
		}
		return strings.Join(values, " or ")
	case field.Pattern == durationPattern:
		return "duration"
	case field.Type == "array":
		return "list of " + kindOf(field.Items)
	case field.Type == "object":
		return "map of " + kindOf(field.AdditionalProperties)
	case field.Type == "integer":
		return "number"
	default:
		return field.Type
	}
}

// reference returns the type that is in a field, or empty if the field has no type of ours.
func reference(field *jsonschema.Schema) string {
	switch {
	case field.Ref != "":
		return path.Base(field.Ref)
	case field.Items != nil:
		return reference(field.Items)
	case field.AdditionalProperties != nil:
		return reference(field.AdditionalProperties)
	default:
		return ""
	}
}

// escape returns a description as the item of a list.
func escape(description string) string {
	return strings.NewReplacer("*", `\*`, "\n", " ").Replace(description)
}
