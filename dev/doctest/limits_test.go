package doctest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limit is a row of the page of limits: what is limited, a number and its unit.
var limit = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+)(?: (bytes|KiB|MiB))? \|$`)

// limits are the constants that have the numbers of the rows.
var limits = map[string]struct{ file, name string }{
	"a provider ID": {"internal/instances/bounds/bounds.go", "MaxProviderIDBytes"},
	"type, zone, region or address of an instance":           {"internal/instances/bounds/bounds.go", "MaxTextBytes"},
	"addresses of an instance":                               {"internal/instances/bounds/bounds.go", "MaxAddresses"},
	"its additional labels, together":                        {"internal/instances/bounds/bounds.go", "MaxLabelBytes"},
	"instances of a listing":                                 {"internal/instances/snapshot.go", "mostListed.instances"},
	"memory of a listing":                                    {"internal/instances/snapshot.go", "mostListed.bytes"},
	"pages of a listing":                                     {"internal/instances/snapshot.go", "mostListed.pages"},
	"a plugin's error, in logs, conditions and spans":        {"internal/cloud/call.go", "MaxErrorText"},
	"the holder's annotation of a Lease":                     {"internal/election/pod.go", "maxHolderPod"},
	"the API server's error about a write":                   {"internal/controller/kit/report.go", "maxErrorText"},
	"message of an event or condition":                       {"internal/controller/kit/report.go", "MaxMessage"},
	"a credential kept out of errors, at least":              {"internal/secrets/set.go", "shortest"},
	"a cloud config file searched for credentials":           {"internal/secrets/set.go", "longestSource"},
	"value in an error about a config":                       {"providers/internal/strict/strict.go", "maxShown"},
	"an answer of a Redfish service":                         {"providers/metal/machines/power/redfish.go", "maxBody"},
	"its header":                                             {"providers/metal/machines/power/tls.go", "maxHeader"},
	"members of a Redfish collection":                        {"providers/metal/machines/power/redfish.go", "maxMembers"},
	"machines of all node groups":                            {"providers/metal/config/nodegroups.go", "maxGroupedMachines"},
	"a BMC's answer in an instance's error":                  {"providers/metal/machines/nodegroup/apply.go", "maxReason"},
	"answer of the simulated cloud":                          {"providers/sim/api/client.go", "maxAnswerBytes"},
	"refusal of the simulated cloud":                         {"providers/sim/api/client.go", "maxRefusalBytes"},
	"request for a serving certificate":                      {"extensions/servingcertificate/desired.go", "maxRequest"},
	"names and addresses in it":                              {"extensions/servingcertificate/desired.go", "maxEntries"},
	"requests of one kubelet considered":                     {"extensions/servingcertificate/reconcile.go", "maxWaiting"},
	"request of the Cluster Autoscaler":                      {"extensions/autoscaler/server.go", "maxMessage"},
	"nodes in it":                                            {"extensions/autoscaler/deletenodes.go", "maxNodes"},
	"text it receives":                                       {"extensions/autoscaler/translate.go", "mostText"},
	"one change of the simulated cloud":                      {"providers/sim/api/change.go", "maxChangeBytes"},
	"manager's answer to `mooring plan` or `mooring status`": {"cmd/mooring/plan_manager.go", "maxAnswer"},
}

// TestLimits holds the numbers of the page of limits against the constants in the source.
func TestLimits(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := limit.FindAllStringSubmatch(string(page), -1)
	if all := strings.Count(string(page), "\n| ") - 1; len(rows) != all || all != len(limits) {
		t.Errorf("%d of %d rows are of the form of a limit, and %d constants are known", len(rows), all, len(limits))
	}
	units := map[string]int64{"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}
	for _, row := range rows {
		source, known := limits[row[1]]
		number, err := strconv.ParseInt(strings.ReplaceAll(row[2], ",", ""), 10, 64)
		if err != nil || !known {
			t.Errorf("%s: no constant is known for the row (%v)", row[1], err)
			continue
		}
		if got, found := constantOf(t, filepath.Join(root, source.file), source.name); !found || got != number*units[row[3]] {
			t.Errorf("%s in %s is %d (found: %t), and the page says %s %s", source.name, source.file, got, found, row[2], row[3])
		}
	}
}

// constantOf returns the number that a file gives to a name, or to a field of a literal, NAME.FIELD.
func constantOf(t *testing.T, path, name string) (value int64, found bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name, field, _ := strings.Cut(name, ".")
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		for i, one := range spec.Names {
			if one.Name == name && i < len(spec.Values) && !found {
				value, found = numberOf(spec.Values[i], field)
			}
		}
		return true
	})
	return value, found
}

// numberOf evaluates an expression of literals, or a field of a composite literal of them.
func numberOf(expression ast.Expr, field string) (value int64, found bool) {
	if literal, is := expression.(*ast.CompositeLit); is {
		for _, element := range literal.Elts {
			if pair, is := element.(*ast.KeyValueExpr); is && types.ExprString(pair.Key) == field {
				return numberOf(pair.Value, "")
			}
		}
		return 0, false
	}
	evaluated, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(expression))
	if err != nil || evaluated.Value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(evaluated.Value))
}
