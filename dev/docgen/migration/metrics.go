package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// referenceModule is where the reference's metrics are declared.
const referenceModule = "k8s.io/cloud-provider"

// meanings explain the metrics of the reference that need an explanation. They cover only metrics that the module declares itself.
func meanings() map[string]string {
	return map[string]string{
		"node_controller_cloud_provider_taint_removal_delay_seconds": "The taint is removed after the addresses are written, not before: the same figure promises more",
		"node_controller_initial_node_sync_delay_seconds":            "The same",
		"route_controller_route_sync_total": "The same; while nothing changes there is one comparison in 30 s, not in 10, and `trigger` is " +
			"`node_change` for a change of a node without the feature gate, too",
		"service_controller_loadbalancer_sync_total": "Only load balancers whose targets are changed are counted, not every one that is looked at",
		"service_controller_nodesync_error_total":    "The same",
		"service_controller_nodesync_latency_seconds": "From when the set of nodes has settled (`--load-balancer-target-delay`) until all " +
			"load balancers have received it",
		"service_controller_update_loadbalancer_host_latency_seconds": "The wait for the turn at the cloud is included",
		"cloud_provider_webhook_request_total": "Is not there: no webhooks are served, as the reference serves none unless a vendor's " +
			"main hands it some",
		"cloud_provider_webhook_request_duration_seconds": "Is not there, likewise",
		"cloud_node_lifecycle_controller_cloud_provider_calls_total": "Is not there: `mooring_cloud_calls_total` has the calls of all " +
			"controllers, by the plugin's method and by outcome",
		"cloud_node_lifecycle_controller_monitor_nodes_duration_seconds": "Is not there: `mooring_node_lifecycle_pass_duration_seconds`, " +
			"whose passes end at once while all nodes are ready",
	}
}

// family is a metric with its labels, in alphabetical order, and with the values of its labels as far as they are constant.
type family struct {
	name   string
	labels []string
	values map[string][]string
	// texts are all strings of the reference's package that declares it.
	texts map[string]bool
}

// compareLabels returns an error if the labels or their values are not those of the reference. The source shows the values that a function
// with a parameter of the label's name gets, and constants whose names begin with the label's; every other one of ours has to be a string there.
func (f family) compareLabels(reference family) error {
	if !slices.Equal(f.labels, reference.labels) {
		return fmt.Errorf("%s has the labels %q, and in the reference %q", f.name, f.labels, reference.labels)
	}
	for _, label := range f.labels {
		for _, value := range reference.values[label] {
			if !slices.Contains(f.values[label], value) {
				return fmt.Errorf("%s: the label %s has the values %q, and in the reference %q, too", f.name, label, f.values[label], value)
			}
		}
		for _, value := range f.values[label] {
			if !reference.texts[value] {
				return fmt.Errorf("%s: the label %s has the value %q, which the reference does not have", f.name, label, value)
			}
		}
	}
	return nil
}

// row is a metric of the reference.
type row struct{ name, meaning string }

// compareMetrics says of each metric of the reference what becomes of it.
func compareMetrics(reference []family, ours map[string]family) ([]row, error) {
	words := meanings()
	var rows []row
	for _, metric := range reference {
		name := metric.name
		own, kept := ours[name]
		meaning, found := words[name]
		if !found {
			return nil, fmt.Errorf("the reference has the metric %s, of which meanings() says nothing", name)
		}
		if gone := strings.HasPrefix(meaning, "Is not there"); gone == kept {
			return nil, fmt.Errorf("%s: meanings() and docs/reference/metrics.md do not agree on whether it is there", name)
		}
		if kept {
			if err := own.compareLabels(metric); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row{name, meaning})
		delete(words, name)
	}
	for name := range words {
		return nil, fmt.Errorf("meanings() has the metric %s, which the reference does not have", name)
	}
	return rows, nil
}

// referenceMetrics reads the names and labels of the reference's metrics off its source: they are private there, and registered only when a
// controller starts.
func referenceMetrics() ([]family, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", referenceModule).Output()
	if err != nil {
		return nil, fmt.Errorf("find the source of %s: %w", referenceModule, err)
	}
	packages := map[string][]*ast.File{}
	err = filepath.WalkDir(strings.TrimSpace(string(output)), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the source of %s: %w", referenceModule, err)
	}
	var found []family
	for _, files := range packages {
		found = append(found, declaredIn(files)...)
	}
	slices.SortFunc(found, func(a, b family) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// declaredIn returns the metrics of a package: calls with a literal of options, whose parts may be constants of the package, and the
// labels behind it.
func declaredIn(files []*ast.File) []family {
	constants := map[string]string{}
	var found []family
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					if value, ok := text(spec.Values[i], nil); ok {
						constants[name.Name] = value
					}
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			of, ok := call.Args[0].(*ast.UnaryExpr) // &metrics.CounterOpts{}
			if !ok {
				return true
			}
			if literal, ok := of.X.(*ast.CompositeLit); ok && isOptions(literal) {
				labels := labelsOf(call.Args[1:], constants)
				found = append(found, family{nameOf(literal, constants), labels, valuesOf(labels, files, constants), textsOf(files)})
			}
			return true
		})
	}
	return found
}

// valuesOf returns the values of labels that a package shows: constants named after a label, and what a function gets for a parameter of its name.
func valuesOf(labels []string, files []*ast.File, constants map[string]string) map[string][]string {
	found := map[string][]string{}
	for name, value := range constants {
		for _, label := range labels {
			if strings.HasPrefix(name, label) {
				found[label] = append(found[label], value)
			}
		}
	}
	places := map[string]map[int]string{} // labels by function and place
	each(files, func(declared *ast.FuncDecl) {
		places[declared.Name.Name] = map[int]string{}
		place := 0
		for _, field := range declared.Type.Params.List {
			for _, name := range field.Names {
				if slices.Contains(labels, name.Name) {
					places[declared.Name.Name][place] = name.Name
				}
				place++
			}
		}
	})
	each(files, func(call *ast.CallExpr) {
		function, ok := call.Fun.(*ast.Ident)
		if !ok {
			return
		}
		for place, label := range places[function.Name] {
			if value, ok := text(call.Args[place], constants); ok {
				found[label] = append(found[label], value)
			}
		}
	})
	return found
}

// textsOf returns all strings of a package.
func textsOf(files []*ast.File) map[string]bool {
	found := map[string]bool{}
	each(files, func(literal *ast.BasicLit) {
		if value, ok := text(literal, nil); ok {
			found[value] = true
		}
	})
	return found
}

// each calls see with every node of a kind.
func each[T ast.Node](files []*ast.File, see func(T)) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if one, ok := node.(T); ok {
				see(one)
			}
			return true
		})
	}
}

// labelsOf returns the texts of the lists among the arguments.
func labelsOf(arguments []ast.Expr, constants map[string]string) (labels []string) {
	for _, argument := range arguments {
		if list, ok := argument.(*ast.CompositeLit); ok {
			for _, element := range list.Elts {
				if label, ok := text(element, constants); ok {
					labels = append(labels, label)
				}
			}
		}
	}
	slices.Sort(labels)
	return labels
}

// isOptions reports whether a literal is metrics.CounterOpts or one of its kin.
func isOptions(literal *ast.CompositeLit) bool {
	selector, ok := literal.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "metrics" && strings.HasSuffix(selector.Sel.Name, "Opts")
}

// nameOf puts the name of a metric together as Prometheus does.
func nameOf(literal *ast.CompositeLit, constants map[string]string) string {
	parts := map[string]string{}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok {
			parts[key.Name], _ = text(pair.Value, constants)
		}
	}
	var named []string
	for _, part := range []string{"Namespace", "Subsystem", "Name"} {
		if parts[part] != "" {
			named = append(named, parts[part])
		}
	}
	return strings.Join(named, "_")
}

// text returns a string that is written out or a constant of its package.
func text(expression ast.Expr, constants map[string]string) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		value, ok := constants[e.Name]
		return value, ok
	default:
		return "", false
	}
}
