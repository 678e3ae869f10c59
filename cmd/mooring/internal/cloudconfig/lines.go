package cloudconfig

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// addLines fills in on which lines of a file in YAML or JSON the fields of the findings are. A field that is missing has the line of what it belongs to.
func addLines(findings []Finding, data []byte) {
	var document yaml.Node
	if yaml.Unmarshal(data, &document) != nil || len(document.Content) == 0 {
		return
	}
	for i := range findings {
		if finding := &findings[i]; finding.Field != "" && finding.Line == 0 {
			finding.Line = lineOf(document.Content[0], finding.Field)
		}
	}
}

// lineOf returns the line of a field such as pools[0].name, zero if the file has nothing of it.
func lineOf(node *yaml.Node, field string) (line int) {
	for field != "" {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		var next *yaml.Node
		if rest, isIndex := strings.CutPrefix(field, "["); isIndex {
			var inside string
			if inside, field, _ = strings.Cut(rest, "]"); node.Kind == yaml.SequenceNode {
				if index, err := strconv.Atoi(inside); err == nil && index >= 0 && index < len(node.Content) {
					next = node.Content[index]
					line = next.Line
				}
			} else {
				next, line = child(node, inside, line)
			}
			field = strings.TrimPrefix(field, ".")
		} else {
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			next, line = child(node, field[:end], line)
			field = strings.TrimPrefix(field[end:], ".")
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}

// child returns the value of a key and the line of the key, or nil and the line of what is around it.
func child(node *yaml.Node, key string, around int) (value *yaml.Node, line int) {
	if node.Kind != yaml.MappingNode {
		return nil, around
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1], node.Content[i].Line
		}
	}
	return nil, around
}
