// Package walk counts how many functions of the core an object passes on its way, in how many files, and how often it comes back to a file that it has
// left. It measures what a reader has to follow.
package walk

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-ccm/mooring/dev/walk/trace"
)

// Walk is the way of one object.
type Walk struct {
	// Entries are the functions entered, Files the different files that they are in, and Returns how many of the entries are into a file that was
	// left already.
	Entries, Files, Returns int
}

// String returns the walk as the command prints it.
func (w Walk) String() string {
	return fmt.Sprintf("%d entries, %d files, %d returns", w.Entries, w.Files, w.Returns)
}

// Count returns the walk of the workers: the goroutines that enter a function of a file. What they start is not counted.
func Count(entries []trace.Entry, file, function string) Walk {
	workers := map[string]bool{}
	for _, entry := range entries {
		if entry.File == file && entry.Function == function {
			workers[entry.Goroutine] = true
		}
	}
	var walk Walk
	var visited []string
	current := ""
	for _, entry := range entries {
		if !workers[entry.Goroutine] {
			continue
		}
		walk.Entries++
		seen := slices.Contains(visited, entry.File)
		switch {
		case !seen:
			visited = append(visited, entry.File)
		case entry.File != current:
			walk.Returns++
		}
		current = entry.File
	}
	walk.Files = len(visited)
	return walk
}

// tracePackage is what the changed files import.
const tracePackage = "github.com/mooring-ccm/mooring/dev/walk/trace"

// Overlay writes changed copies of the Go files below some folders of a module into a directory: each function reports that it is entered. It returns
// what go's -overlay wants to know: the copy of each file.
func Overlay(module, into string, folders ...string) (map[string]string, error) {
	replaced := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(module, folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(module, path)
			if err != nil {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			changed, err := instrument(filepath.ToSlash(name), source)
			if err != nil {
				return err
			}
			replaced[path] = filepath.Join(into, strconv.Itoa(len(replaced))+".go")
			return os.WriteFile(replaced[path], changed, 0o600)
		})
		if err != nil {
			return nil, fmt.Errorf("copying the files of %s: %w", folder, err)
		}
	}
	return replaced, nil
}

// instrument returns a file whose functions report that they are entered. No line moves.
func instrument(name string, source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading Go code: %w", err)
	}
	changed, end := []byte(nil), 0
	insert := func(at token.Pos, text string) {
		offset := files.Position(at).Offset
		changed = append(append(changed, source[end:offset]...), text...)
		end = offset
	}
	insert(file.Name.End(), "; import walktrace "+strconv.Quote(tracePackage))
	entered := false
	for _, declaration := range file.Decls {
		if function, is := declaration.(*ast.FuncDecl); is && function.Body != nil {
			entered = true
			insert(function.Body.Lbrace+1, fmt.Sprintf("walktrace.Enter(%q, %q);", name, nameOf(function)))
		}
	}
	if !entered {
		return source, nil
	}
	return append(changed, source[end:]...), nil
}

// nameOf returns the name of a function, with the type of its receiver if it is a method.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}
