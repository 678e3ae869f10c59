package conformance

import (
	"fmt"
	"go/format"
	"io"
	"strings"
)

// WriteFindings writes what a provider bears, and the Go code by which it declares that.
func WriteFindings(to io.Writer, findings []Finding) error {
	var b strings.Builder
	b.WriteString("What the provider bears:\n")
	for _, found := range findings {
		fmt.Fprintf(&b, "  %-14s %s\n", found.Trait.ID, found.Says)
	}
	code, err := Declaration(findings)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nTo declare it, add to the provider (to a provider of another project, by provider.WithCapabilities):\n\n%s", code)
	_, err = io.WriteString(to, b.String())
	return err
}

// Declaration returns the method Capabilities, in Go, that declares what was found. What was found and is not proven is a comment.
func Declaration(findings []Finding) (string, error) {
	var b strings.Builder
	b.WriteString("// Capabilities says what the provider offers beyond cloudprovider.Interface.\n" +
		"func (c *Cloud) Capabilities() provider.Capabilities {\n\treturn provider.Capabilities{\n")
	for _, found := range findings {
		switch {
		case found.Declare == "":
		case found.Unproven != "":
			fmt.Fprintf(&b, "\t\t// %s: %s, // %s\n", found.Trait.Declares, found.Declare, found.Unproven)
		default:
			fmt.Fprintf(&b, "\t\t%s: %s,\n", found.Trait.Declares, found.Declare)
		}
	}
	b.WriteString("\t}\n}\n")
	code, err := format.Source([]byte(b.String()))
	if err != nil {
		return "", fmt.Errorf("the declaration: %w", err)
	}
	return string(code), nil
}
