package main

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

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/cloudconfig"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
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

// output is the flag --output. What people read, table and wide, is written by package view: the printers of kubectl have no colors.
type output string

// addFlag adds the flag.
func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", outputTable,
		"`format`: table, wide, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH[,NAME:PATH]")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{outputTable, outputWide, outputJSON, outputYAML, outputPath, outputColumns}, cobra.ShellCompDirectiveNoFileComp))
}

// forPeople reports whether the format is a text for people, and whether it is to leave nothing out.
func (o *output) forPeople() (text, wide bool) {
	return *o == outputTable || *o == outputWide, *o == outputWide
}

// validate returns an error for a format that there is not.
func (o *output) validate() error {
	if text, _ := o.forPeople(); text {
		return nil
	}
	_, err := o.printer()
	return err
}

// document is what is printed: an object, and the rows that custom columns are taken from.
type document interface {
	runtime.Object
	// rows are the names of its lists, by the kind of their elements.
	rows() []rowsOf
}

// rowsOf names a list of a document.
type rowsOf struct{ field, kind string }

// planDocument is a plan as it is printed.
type planDocument struct {
	metav1.TypeMeta `json:",inline"`
	view.Plan
}

func (d *planDocument) rows() []rowsOf { return []rowsOf{{field: "intents"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *planDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// statusDocument is a status as it is printed.
type statusDocument struct {
	metav1.TypeMeta `json:",inline"`
	view.Status
}

func (d *statusDocument) rows() []rowsOf { return []rowsOf{{"nodes", "Node"}, {"services", "Service"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *statusDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// checkDocument is what came of all checks as it is printed.
type checkDocument struct {
	metav1.TypeMeta `json:",inline"`
	check.Report
}

func (d *checkDocument) rows() []rowsOf { return []rowsOf{{field: "results"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *checkDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// validationDocument is what is to be said of a cloud config as it is printed.
type validationDocument struct {
	metav1.TypeMeta `json:",inline"`
	cloudconfig.Report
}

func (d *validationDocument) rows() []rowsOf { return []rowsOf{{field: "findings"}} }

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *validationDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// typeMeta is the type of a printed document.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "mooring.dev/v1alpha1", Kind: kind}
}

// print writes a document for programs.
func (o *output) print(to io.Writer, what document) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	return printer.PrintObj(what, to)
}

// printer returns what prints the format.
func (o *output) printer() (printers.ResourcePrinter, error) {
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
	what, ok := object.(document)
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
	for _, of := range what.rows() {
		elements, _ := content[of.field].([]any)
		for _, element := range elements {
			if row, isObject := element.(map[string]any); isObject && of.kind != "" {
				row["kind"] = of.kind
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
