package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of a document; nothing that is decoded here is deeper than five.
const maxDepth = 32

func parseYAML(data []byte) (node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return node{}, errors.New("the document is empty")
		}
		return node{}, err
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return node{}, errors.New("there is more than one document")
	}
	return fromYAML(document.Content[0], 0)
}

func fromYAML(y *yaml.Node, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, fmt.Errorf("line %d: nested too deeply", y.Line)
	}
	switch y.Kind {
	case yaml.ScalarNode:
		return yamlScalar(y)
	case yaml.SequenceNode:
		n := node{kind: kindList}
		for _, content := range y.Content {
			item, err := fromYAML(content, depth+1)
			if err != nil {
				return node{}, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case yaml.MappingNode:
		n := node{kind: kindMap}
		for i := 0; i+1 < len(y.Content); i += 2 {
			name := y.Content[i]
			if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
				return node{}, fmt.Errorf("line %d: a key must be a plain name", name.Line)
			}
			value, err := fromYAML(y.Content[i+1], depth+1)
			if err != nil {
				return node{}, err
			}
			n.fields = append(n.fields, member{name.Value, value})
		}
		return n, nil
	default:
		return node{}, fmt.Errorf("line %d: aliases are not supported", y.Line)
	}
}

func yamlScalar(y *yaml.Node) (node, error) {
	kinds := map[string]kind{"!!null": kindNull, "!!bool": kindBool, "!!int": kindInt, "!!float": kindFloat}
	k, ok := kinds[y.ShortTag()]
	if !ok {
		return node{kind: kindString, scalar: y.Value, text: y.Value}, nil
	}
	n := node{kind: k, text: y.Value}
	if err := y.Decode(&n.scalar); err != nil {
		return node{}, err
	}
	return n, nil
}

func parseJSON(data []byte) (node, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	n, err := fromJSON(decoder, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return node{}, errors.New("the value is cut off")
	}
	if err != nil {
		return node{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("there is something after the value")
	}
	return n, nil
}

func fromJSON(decoder *json.Decoder, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, errors.New("nested too deeply")
	}
	token, err := decoder.Token()
	if err != nil {
		return node{}, err
	}
	switch value := token.(type) {
	case json.Delim:
		if value == '[' {
			return jsonList(decoder, depth)
		}
		return jsonMap(decoder, depth)
	case json.Number:
		k := kindInt
		if strings.ContainsAny(value.String(), ".eE") {
			k = kindFloat
		}
		return node{kind: k, scalar: value, text: value.String()}, nil
	case string:
		return node{kind: kindString, scalar: value, text: value}, nil
	case bool:
		return node{kind: kindBool, scalar: value, text: fmt.Sprint(value)}, nil
	default:
		return node{kind: kindNull, text: "null"}, nil
	}
}

func jsonList(decoder *json.Decoder, depth int) (node, error) {
	n := node{kind: kindList}
	for decoder.More() {
		item, err := fromJSON(decoder, depth+1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, item)
	}
	_, err := decoder.Token()
	return n, err
}

func jsonMap(decoder *json.Decoder, depth int) (node, error) {
	n := node{kind: kindMap}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return node{}, err
		}
		value, err := fromJSON(decoder, depth+1)
		if err != nil {
			return node{}, err
		}
		n.fields = append(n.fields, member{name.(string), value})
	}
	_, err := decoder.Token()
	return n, err
}
