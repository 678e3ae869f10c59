package docgen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// Constants returns the string constants of the package in a folder, by name: only literals.
func Constants(folder string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("constants of %s: %w", folder, err)
	}
	found := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("constants of %s: %w", folder, err)
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.CONST {
				addConstants(found, general)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no string constants", folder)
	}
	return found, nil
}

// addConstants adds the strings of one declaration.
func addConstants(found map[string]string, declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, expression := range value.Values {
			literal, ok := expression.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found[value.Names[i].Name] = text
			}
		}
	}
}
