package draw

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String returns the draw as a scenario that a person can read and edit, see the comment of the package.
func (d Draw) String() string {
	var text strings.Builder
	line := func(words ...string) {
		text.WriteString(strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ") + "\n")
	}
	line("draw", attributes(d))
	line("plugin", d.Plugin.Name(), attributes(d.Plugin, "Characters"))
	for _, node := range d.Nodes {
		line("node", node.Name, attributes(node, "Name"))
	}
	for _, service := range d.Services {
		line("service", service.Name, attributes(service, "Name"))
	}
	for _, event := range d.Events {
		line(event.At.String(), string(event.Kind), event.Object, attributes(event, "At", "Kind", "Object"))
	}
	return text.String()
}

// Parse reads a scenario.
func Parse(text string) (Draw, error) {
	var d Draw
	number := 0
	for line := range strings.Lines(text) {
		number++
		content, _, _ := strings.Cut(line, "#")
		words := strings.Fields(content)
		if len(words) == 0 {
			continue
		}
		if err := d.parse(words); err != nil {
			return d, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if len(d.Nodes) == 0 || len(d.Services) == 0 {
		return d, errors.New("a scenario has at least one node and one Service")
	}
	slices.SortStableFunc(d.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return d, nil
}

// parse adds a line to the draw.
func (d *Draw) parse(words []string) error {
	names := words[1:]
	if i := slices.IndexFunc(names, func(word string) bool { return strings.Contains(word, "=") }); i >= 0 {
		names = names[:i]
	}
	values := words[1+len(names):]
	name := strings.Join(names, " ")
	switch words[0] {
	case "draw":
		return set(d, values)
	case "plugin":
		for character := range strings.SplitSeq(name, "+") {
			if slices.Contains(characters, Character(character)) {
				d.Plugin.Characters = append(d.Plugin.Characters, Character(character))
			} else if character != plain {
				return fmt.Errorf("unknown character %q", character)
			}
		}
		return set(&d.Plugin, values)
	case "node":
		d.Nodes = append(d.Nodes, Node{Name: name})
		return set(&d.Nodes[len(d.Nodes)-1], values)
	case "service":
		d.Services = append(d.Services, Service{Name: name})
		return set(&d.Services[len(d.Services)-1], values)
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return fmt.Errorf("unknown word %q: neither draw, plugin, node, service nor a time", words[0])
	}
	kind, object, _ := strings.Cut(name, " ")
	if !slices.Contains(disturbances, Disturbance(kind)) {
		return fmt.Errorf("unknown disturbance %q", kind)
	}
	d.Events = append(d.Events, Event{At: at, Kind: Disturbance(kind), Object: object})
	return set(&d.Events[len(d.Events)-1], values)
}

// attributes returns the fields of a struct that are set, but for some, as words: the name in lower case, an equals sign and the value.
func attributes(of any, without ...string) string {
	var words []string
	value := reflect.ValueOf(of)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if !slices.Contains(without, field.Name) && scalar(field.Type) && !value.Field(i).IsZero() {
			words = append(words, fmt.Sprintf("%s=%v", strings.ToLower(field.Name), value.Field(i).Interface()))
		}
	}
	return strings.Join(words, " ")
}

// scalar reports whether a field is an attribute. The lists of a draw are lines of their own.
func scalar(of reflect.Type) bool { return of.Kind() != reflect.Slice && of.Kind() != reflect.Struct }

// set sets the fields of a struct from words.
func set(of any, words []string) error {
	value := reflect.ValueOf(of).Elem()
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		field := value.FieldByNameFunc(func(field string) bool { return strings.EqualFold(field, name) })
		if !ok || !field.IsValid() || !scalar(field.Type()) {
			return fmt.Errorf("unknown attribute %q", word)
		}
		if err := setField(field, text); err != nil {
			return fmt.Errorf("attribute %q: %w", word, err)
		}
	}
	return nil
}

func setField(field reflect.Value, text string) error {
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		field.SetBool(value)
		return err
	case reflect.Float64:
		value, err := strconv.ParseFloat(text, 64)
		field.SetFloat(value)
		return err
	case reflect.Uint64:
		value, err := strconv.ParseUint(text, 10, 64)
		field.SetUint(value)
		return err
	case reflect.Int, reflect.Int64:
		if field.Type() == reflect.TypeFor[time.Duration]() {
			value, err := time.ParseDuration(text)
			field.SetInt(int64(value))
			return err
		}
		value, err := strconv.ParseInt(text, 10, 64)
		field.SetInt(value)
		return err
	default:
		return fmt.Errorf("a scenario cannot have a %s", field.Type())
	}
	return nil
}
