package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readmeHead is the part of the chart's README that is not made from values.yaml.
const readmeHead = `<!-- Generated from values.yaml by make generate. Do not edit. -->
# Chart of Mooring

Runs a cloud controller manager on the control plane of a cluster, with the rights that it needs and no others.

    helm install mooring deploy/charts/mooring --namespace kube-system --set image.repository=registry.example/ccm \
      --set provider.name=sim --set provider.config.existingSecret=cloud-config

[Install with Helm](../../../docs/how-to/install-with-helm.md) says more; [upgrade](../../../docs/how-to/upgrade.md) and
[rotate credentials](../../../docs/how-to/rotate-credentials.md) what comes later. ` + "`values.schema.json`" + ` checks every value and names the
wrong ones.

| value | default | |
|---|---|---|
`

// Readme returns the README of the chart in a folder: a table of its values with the comments that stand above them.
func Readme(folder string) (string, error) {
	path := filepath.Join(folder, "values.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return "", fmt.Errorf("%s is not a mapping", path)
	}
	var table strings.Builder
	if err := writeValues(&table, "", document.Content[0]); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return readmeHead + table.String(), nil
}

// writeValues writes a row for each value of a mapping, and for each mapping in it that has a comment.
func writeValues(table *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path, words := prefix+key.Value, comment(key)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if words != "" {
				fmt.Fprintf(table, "| `%s` | | %s |\n", path, words)
			}
			if err := writeValues(table, path+".", value); err != nil {
				return err
			}
			continue
		}
		shown, err := shownDefault(value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		fmt.Fprintf(table, "| `%s` | %s | %s |\n", path, shown, words)
	}
	return nil
}

// comment returns what stands above a key, in one line.
func comment(key *yaml.Node) string {
	var words []string
	for line := range strings.SplitSeq(key.HeadComment, "\n") {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", "\\|")
}

// longest is how long a default may be to be shown.
const longest = 60

func shownDefault(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode && value.Value == "" {
		return "`\"\"`", nil
	}
	plain := *value
	plain.HeadComment, plain.LineComment, plain.FootComment = "", "", ""
	if value.Kind == yaml.ScalarNode {
		return "`" + value.Value + "`", nil
	}
	plain.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&plain)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if len(line) > longest || strings.Contains(line, "\n") {
		return "see `values.yaml`", nil
	}
	return "`" + line + "`", nil
}
