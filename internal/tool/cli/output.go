package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// The values of --output, as those of kubectl. The last two are followed by a template.
const (
	outputTable   = "table"
	outputWide    = "wide"
	outputJSON    = "json"
	outputYAML    = "yaml"
	outputPath    = "jsonpath="
	outputColumns = "custom-columns="
)

// Output is the flag --output of every command that shows something. What people read, table and wide, the command writes itself: the printers of
// kubectl have no colors.
type Output string

// AddFlag adds the flag.
func (o *Output) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", outputTable,
		"`format`: table, wide, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH[,NAME:PATH]")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{outputTable, outputWide, outputJSON, outputYAML, outputPath, outputColumns}, cobra.ShellCompDirectiveNoFileComp))
}

// ForPeople reports whether the format is a text for people, and whether it is to leave nothing out.
func (o *Output) ForPeople() (text, wide bool) {
	return *o == outputTable || *o == outputWide, *o == outputWide
}

// Validate returns an error for a format that there is not.
func (o *Output) Validate() error {
	if text, _ := o.ForPeople(); text {
		return nil
	}
	_, err := o.printer()
	return err
}

// Document is what is printed: an object, and the rows that custom columns are taken from.
type Document interface {
	runtime.Object
	// Rows are the names of its lists, by the kind of their elements.
	Rows() []RowsOf
}

// RowsOf names a list of a document.
type RowsOf struct{ Field, Kind string }

// TypeMeta is the type of a printed document.
func TypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "mooring.dev/v1alpha1", Kind: kind}
}

// Print writes a document for programs.
func (o *Output) Print(to io.Writer, what Document) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	return printer.PrintObj(what, to)
}

// printer returns what prints the format.
func (o *Output) printer() (printers.ResourcePrinter, error) {
	format := string(*o)
	switch {
	case format == outputJSON:
		return &printers.JSONPrinter{}, nil
	case format == outputYAML:
		return &printers.YAMLPrinter{}, nil
	case strings.HasPrefix(format, outputPath):
		path, err := printers.NewJSONPathPrinter(strings.TrimPrefix(format, outputPath))
		if err != nil {
			return nil, fmt.Errorf("--output: %w", err)
		}
		path.AllowMissingKeys(true)
		return path, nil
	case strings.HasPrefix(format, outputColumns):
		return newColumns(strings.TrimPrefix(format, outputColumns))
	default:
		return nil, fmt.Errorf("--output: %q: must be table, wide, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH[,NAME:PATH]", format)
	}
}

// columns prints a row for each element of a document's lists. Those of kubectl print lists of objects of the API only.
type columns struct {
	names []string
	paths []*jsonpath.JSONPath
}

// newColumns reads NAME:PATH,...
func newColumns(spec string) (*columns, error) {
	c := &columns{}
	for one := range strings.SplitSeq(spec, ",") {
		name, path, found := strings.Cut(one, ":")
		if !found || name == "" || path == "" {
			return nil, fmt.Errorf("--output: custom-columns: %q: must be NAME:PATH", one)
		}
		// As in kubectl, the braces and the first dot may be left out.
		path = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".")
		column := jsonpath.New(name).AllowMissingKeys(true)
		if err := column.Parse("{." + path + "}"); err != nil {
			return nil, fmt.Errorf("--output: custom-columns: %s: %w", name, err)
		}
		c.names, c.paths = append(c.names, name), append(c.paths, column)
	}
	return c, nil
}

// PrintObj prints the rows as a table.
func (c *columns) PrintObj(object runtime.Object, to io.Writer) error {
	what, ok := object.(Document)
	if !ok {
		return errors.New("custom-columns: the object has no rows")
	}
	encoded, err := json.Marshal(what)
	if err != nil {
		return err
	}
	var content map[string]any
	if err := json.Unmarshal(encoded, &content); err != nil {
		return err
	}
	table := &metav1.Table{}
	for _, name := range c.names {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, of := range what.Rows() {
		elements, _ := content[of.Field].([]any)
		for _, element := range elements {
			if row, isObject := element.(map[string]any); isObject && of.Kind != "" {
				row["kind"] = of.Kind
			}
			cells, err := c.cells(element)
			if err != nil {
				return err
			}
			table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
		}
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, to)
}

// cells are the values of a row. One that is missing is <none>, as in kubectl.
func (c *columns) cells(row any) ([]any, error) {
	var cells []any
	for i, path := range c.paths {
		results, err := path.FindResults(row)
		if err != nil {
			return nil, fmt.Errorf("--output: custom-columns: %s: %w", c.names[i], err)
		}
		cells = append(cells, textOf(results))
	}
	return cells, nil
}

// textOf joins what a path has found.
func textOf(results [][]reflect.Value) string {
	var values []string
	for _, list := range results {
		for _, value := range list {
			values = append(values, fmt.Sprint(value.Interface()))
		}
	}
	if len(values) == 0 {
		return "<none>"
	}
	return strings.Join(values, ",")
}
