package ccmbuild

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// What the go tool writes, as its sources have it (cmd/go/internal/modget, modload and toolchain). None of it is an API: a test
// provokes each with the real go tool.
var (
	conflictMessage = regexp.MustCompile(`^go: (\S+)(?: \(matching [^)]*\))? (?:indirectly )?requires (\S+)@(\S+), not (\S+)@(\S+)`)
	packageMessage  = regexp.MustCompile(`module (\S+?)@(\S+) found(?: \(([^\s,)]+)[^)\n]*\))?, but does not contain package (\S+)`)
	replaceMessage  = regexp.MustCompile(`(\S+)(?: requires| imports)\s+(?:\S+: )?([^\s:]+@v0\.0\.0): `)
	goMessage       = regexp.MustCompile(`requires go >= (\S+) \(running go ([^;\s)]+)`)
	queryMessage    = regexp.MustCompile(`^(?:\S+\.go:\d+:\d+: |go: )(?:module )?([A-Za-z0-9.-]+\.[^\s:]+): `)
	missingMessage  = regexp.MustCompile(`(?:cannot find module providing package|no required module provides package) ([^\s:;]+)`)
	compileMessage  = regexp.MustCompile(`^\S+\.(?:go|s):\d+(?::\d+)?: `)
)

// explain turns an error of the go tool into the kind that its messages show. The modules and the links are those of the
// workspace; what it does not recognize it returns as it is.
func explain(err error, w Workspace, picked Picked) error {
	var network *gobuild.NetworkError
	var failed *gobuild.CommandError
	if errors.As(err, &network) || !errors.As(err, &failed) {
		return err
	}
	text := strings.Join(failed.Messages, "\n")
	if m := goMessage.FindStringSubmatch(text); m != nil {
		return &ToolchainError{Have: m[2], Want: m[1], Err: err}
	}
	for _, line := range failed.Messages {
		if m := conflictMessage.FindStringSubmatch(line); m != nil {
			by := strings.TrimSuffix(m[1], "@"+directoryVersion) // A directory's version is made up.
			return &VersionConflictError{Module: m[2], RequiredBy: by, Required: m[3], Asked: m[5], Err: err}
		}
	}
	if m := replaceMessage.FindStringSubmatch(text); m != nil {
		return &LostReplacementError{Module: asked(m[1], w), Missing: m[2], Err: err}
	}
	if m := packageMessage.FindStringSubmatch(text); m != nil {
		version := m[2]
		if m[3] != "" { // "latest", with what that is
			version = m[3]
		}
		return &NoPackageError{Module: m[1], Version: version, Package: m[4], By: importers(failed.Messages, m[4]), Err: err}
	}
	if query := queryIn(failed.Messages, w); query != "" {
		return &NoModuleError{Query: query, Tried: prefixes(query), Err: failed}
	}
	if lines := compileLines(failed.Messages, w); len(lines) > 0 && failed.Verb == "build" {
		return &CompileError{Lines: lines, Modules: concerned(lines, picked), Err: err}
	}
	return err
}

// importers are the packages that import another, each the next, as the go tool writes them in the lines above; nil if it does not.
func importers(messages []string, imported string) []string {
	for i, line := range messages {
		if i == 0 || !strings.HasPrefix(strings.TrimSpace(line), imported+": ") {
			continue
		}
		var chain []string
		for at := i - 1; at >= 0; at-- {
			by, found := strings.CutSuffix(strings.TrimSpace(messages[at]), " imports")
			if !found {
				break
			}
			first := strings.HasPrefix(by, "go: ")
			if chain = append(chain, strings.TrimPrefix(by, "go: ")); first {
				break
			}
		}
		if len(chain) > 0 {
			slices.Reverse(chain)
			return chain
		}
	}
	return nil
}

// queryIn returns the package that could not be found, as it was asked for if that is known.
func queryIn(messages []string, w Workspace) string {
	for _, line := range messages {
		m := missingMessage.FindStringSubmatch(line)
		if m == nil {
			m = queryMessage.FindStringSubmatch(line)
		}
		if m == nil {
			continue
		}
		for _, query := range w.Get {
			if path, _, _ := strings.Cut(query, "@"); path == strings.SplitN(m[1], "@", 2)[0] {
				return query
			}
		}
		// The go tool may name a module above or below the package that it looked for it in.
		for _, query := range w.Get {
			path, _, _ := strings.Cut(query, "@")
			if module := strings.SplitN(m[1], "@", 2)[0]; within(module, path) {
				return query
			}
		}
		return m[1]
	}
	return ""
}

// asked returns the query that a package was asked for by, or the package itself if it is not one of those.
func asked(path string, w Workspace) string {
	for _, query := range w.Get {
		if strings.HasPrefix(query, path+"@") || query == path {
			return query
		}
	}
	return path
}

// prefixes are the modules that could hold a package: the go tool looks for all of them and takes the longest that does.
func prefixes(query string) []string {
	path, _, _ := strings.Cut(query, "@")
	tried := []string{path}
	for {
		slash := strings.LastIndex(path, "/")
		if slash < 0 {
			return tried
		}
		path = path[:slash]
		tried = append(tried, path)
	}
}

// compileLines are the lines of the compiler, with links turned back into the directories they stand for. A line that begins with # names
// the package of the lines after it.
func compileLines(messages []string, w Workspace) []string {
	var lines []string
	for _, line := range messages {
		if !compileMessage.MatchString(line) && !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "\t") {
			continue
		}
		for name, directory := range w.Links {
			line = strings.ReplaceAll(line, name+"/", directory+"/")
		}
		lines = append(lines, line)
	}
	if !slices.ContainsFunc(lines, compileMessage.MatchString) {
		return nil
	}
	return lines
}

// concerned are the modules of the packages that do not compile, and those whose interfaces meet there.
func concerned(lines []string, picked Picked) []ModuleVersion {
	failing := map[string]bool{Module: true, "k8s.io/cloud-provider": true, "k8s.io/client-go": true}
	for _, line := range lines {
		if path, found := strings.CutPrefix(line, "# "); found {
			if holder, known := picked.Holder[path]; known {
				failing[picked.Modules[holder].Path] = true
			}
		}
	}
	var modules []ModuleVersion
	for _, module := range picked.Modules {
		if failing[module.Path] {
			modules = append(modules, module)
		}
	}
	return modules
}
