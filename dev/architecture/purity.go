package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// pureImports are what plan.go and desired.go may import. Everything here is values and functions over them.
var pureImports = []string{
	"cmp", "encoding/json", "errors", "fmt", "iter", "maps", "math", "net/netip", "reflect", "regexp", "slices", "sort", "strconv", "strings",
	"time", "unicode", "path",
	// Of these, to parse a certificate request and to check its signature are functions over values.
	"crypto/ecdsa", "crypto/ed25519", "crypto/rsa", "crypto/x509", "encoding/asn1", "encoding/pem",
	"k8s.io/api/",
	"k8s.io/apimachinery/pkg/api/equality", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/labels",
	"k8s.io/apimachinery/pkg/types", "k8s.io/apimachinery/pkg/util/sets", "k8s.io/apimachinery/pkg/util/validation",
	"k8s.io/cloud-provider",                 // the contract's types; nothing in it calls a cloud by itself
	"k8s.io/cloud-provider/api",             // well-known annotations and taints
	"k8s.io/cloud-provider/node/helpers",    // of which GetNodeAddressesFromNodeIP is a function over values
	"k8s.io/cloud-provider/service/helpers", // of which HasLBFinalizer is a function over values
	"k8s.io/utils/net",                      // of which ParseIPSloppy is a function over values
	"github.com/go-openapi/jsonpointer",     // of which Escape and Unescape are functions over values
	"k8s.io/component-helpers/node/util",    // of which GetNodeCondition is a function over values
	Module + "/internal/controller/kit/jsonpatch", Module + "/internal/instances/bounds", Module + "/internal/instances/ownership",
	Module + "/internal/message", Module + "/internal/names", Module + "/internal/prefixes",
	Module + "/provider",
	Module + "/providers/metal/lb/announce/model", Module + "/providers/metal/lb/announce/pods", Module + "/providers/metal/machines/nodestate",
	Module + "/providers/metal/routing",
	Module + "/providers/openstack/octavia/annotations", Module + "/providers/openstack/octavia/model",
}

// impureCalls are functions of pure packages that read the clock or wait.
var impureCalls = []string{
	"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick",
	"fmt.Print", "fmt.Printf", "fmt.Println", "fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln",
	"cloudprovider.GetInstanceProviderID", "cloudprovider.InitCloudProvider", "cloudprovider.GetCloudProvider",
}

// impurities returns one line for each thing in a file that a plan or a desired state may not do: import what does I/O, read a
// clock, take a context, start a goroutine, hold a variable of the package.
func impurities(name string, source any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	var found []string
	report := func(at token.Pos, format string, args ...any) {
		found = append(found, files.Position(at).String()+": "+fmt.Sprintf(format, args...))
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		if !pureImport(path) {
			report(spec.Pos(), "imports %s", path)
		}
	}
	for _, declaration := range file.Decls {
		if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.VAR {
			reportVariables(general, report)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			report(node.Pos(), "starts a goroutine")
		case *ast.SelectorExpr:
			if base, ok := node.X.(*ast.Ident); ok && slices.Contains(impureCalls, base.Name+"."+node.Sel.Name) {
				report(node.Pos(), "uses %s.%s", base.Name, node.Sel.Name)
			}
		}
		return true
	})
	return found, nil
}

// reportVariables reports the variables of a package that could hold state. Tables and compiled expressions are constants
// that Go has no constant for: they are fine, and marked by a value at their declaration that nothing assigns again.
func reportVariables(declaration *ast.GenDecl, report func(token.Pos, string, ...any)) {
	for _, spec := range declaration.Specs {
		if value, ok := spec.(*ast.ValueSpec); ok && len(value.Values) == 0 {
			report(value.Pos(), "declares the variable %s without a value: state that outlives the call", value.Names[0].Name)
		}
	}
}

func pureImport(path string) bool {
	return slices.ContainsFunc(pureImports, func(pure string) bool {
		return path == pure || (strings.HasSuffix(pure, "/") && strings.HasPrefix(path, pure))
	})
}
