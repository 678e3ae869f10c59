package wire

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// parameter is a node in the tree that the dots of parameter names make.
type parameter struct {
	value    string
	leaf     bool
	taken    bool
	children map[string]*parameter
}

func treeOf(form url.Values) *parameter {
	root := &parameter{}
	for name, values := range form {
		at := root
		for part := range strings.SplitSeq(name, ".") {
			if at.children == nil {
				at.children = map[string]*parameter{}
			}
			if at.children[part] == nil {
				at.children[part] = &parameter{}
			}
			at = at.children[part]
		}
		at.value, at.leaf = values[0], true
	}
	return root
}

// untaken returns the names of the leaves that Decode has not read.
func (p *parameter) untaken(name string) []string {
	var names []string
	if p.leaf && !p.taken {
		names = append(names, name)
	}
	for _, part := range slices.Sorted(maps.Keys(p.children)) {
		names = append(names, p.children[part].untaken(strings.TrimPrefix(name+"."+part, "."))...)
	}
	return names
}

// Decode reads a request's parameters into an input of the SDK, which is a pointer to a struct. It returns the names of parameters without a place
// there. Action and Version are left out.
func (p Protocol) Decode(form url.Values, into any) (unknown []string, err error) {
	form = maps.Clone(form)
	form.Del("Action")
	form.Del("Version")
	root := treeOf(form)
	if err := p.decode(root, reflect.ValueOf(into).Elem()); err != nil {
		return nil, err
	}
	return root.untaken(""), nil
}

func (p Protocol) decode(from *parameter, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return p.decode(from, into.Elem())
	case reflect.Struct:
		return p.decodeStruct(from, into)
	case reflect.Slice:
		return p.decodeList(from, into)
	default:
		from.taken = true
		return decodeScalar(from.value, into)
	}
}

func (p Protocol) decodeStruct(from *parameter, into reflect.Value) error {
	for _, field := range reflect.VisibleFields(into.Type()) {
		if !field.IsExported() {
			continue
		}
		child := from.children[p.requestName(into.Type(), field)]
		if child == nil {
			continue
		}
		if err := p.decode(child, into.FieldByIndex(field.Index)); err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return nil
}

// decodeList reads NAME.1, NAME.2 and so on. A name without number and value is an empty list.
func (p Protocol) decodeList(from *parameter, into reflect.Value) error {
	if from.leaf && from.value == "" {
		from.taken = true
		into.Set(reflect.MakeSlice(into.Type(), 0, 0))
		return nil
	}
	elements := from.children
	if member := from.children[p.requestMember]; member != nil {
		elements = member.children
	}
	for number := 1; elements[strconv.Itoa(number)] != nil; number++ {
		element := reflect.New(into.Type().Elem()).Elem()
		if err := p.decode(elements[strconv.Itoa(number)], element); err != nil {
			return fmt.Errorf("element %d: %w", number, err)
		}
		into.Set(reflect.Append(into, element))
	}
	return nil
}

func decodeScalar(text string, into reflect.Value) error {
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		into.SetBool(value)
	case reflect.Int32, reflect.Int64:
		value, err := strconv.ParseInt(text, 10, into.Type().Bits())
		if err != nil {
			return err
		}
		into.SetInt(value)
	default:
		return fmt.Errorf("a value of type %s cannot be read", into.Type())
	}
	return nil
}
