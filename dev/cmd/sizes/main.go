// Command sizes says what the shipped programs weigh: as a whole, by command of the tool and provider of the daemon, and by module. It builds
// each program as make build does, several times, each time without one part. Run it in the root of the checkout:
//
//	go run ./dev/cmd/sizes
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// edit replaces a text in a file of the checkout.
type edit struct{ file, from, to string }

// part is what a program can be built without.
type part struct {
	name  string
	edits []edit
}

// program is one that is shipped.
type program struct {
	name  string
	parts []part
}

// command is a command of the tool, by the call that adds it.
func command(name, call string) part {
	return part{name, []edit{{"cmd/mooring/root.go", call + ",", ""}}}
}

// provider is a provider of the daemon.
func provider(name string) part {
	return part{name, []edit{{"cmd/cloud-controller-manager/main.go", "\t_ \"github.com/mooring-ccm/mooring/providers/" + name + "\"\n", ""}}}
}

var programs = []program{
	{"mooring", []part{
		command("check", "newCheck()"), command("plan", "newPlan()"), command("status", "newStatus()"), command("validate", "newValidate()"),
		command("convert", "newConvert()"), command("orphans", "vendortool.NewOrphans()"), command("sim", "newSim()"),
		command("conformance", "vendortool.NewConformance()"), command("build", "newBuild()"),
		{"build --image", []edit{
			{"cmd/mooring/internal/ccmbuild/image.go", "digest, err := b.makeImage(ctx, in, targets)", `digest, err := "", error(nil)`},
			{"cmd/mooring/internal/ccmbuild/image.go", "image.Certificates(file)", `"", 0, []byte(nil), error(nil)`},
			{"cmd/mooring/internal/ccmbuild/image.go", "// writeImage", "var _ = image.Certificates\n\n// writeImage"},
			{"cmd/mooring/build.go", "image.Push(cmd.Context(), result.Image, scratch, f.reference)", `new(strings.Builder), error(nil)`},
			{"cmd/mooring/build.go", "// send pushes", "var _ = image.Push\n\n// send pushes"},
		}},
	}},
	{"cloud-controller-manager", []part{provider("metal"), provider("openstack"), provider("sim")}},
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	scratch, err := os.MkdirTemp("", "mooring-sizes-")
	if err != nil {
		return fmt.Errorf("directory for programs: %w", err)
	}
	defer os.RemoveAll(scratch)
	m := measurement{scratch: scratch}
	for _, p := range programs {
		if err := m.program(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// measurement builds programs in a directory.
type measurement struct{ scratch string }

// program prints what a program weighs.
func (m measurement) program(ctx context.Context, p program) error {
	whole, err := m.size(ctx, p.name, nil)
	if err != nil {
		return err
	}
	var all []edit
	for _, one := range p.parts {
		all = append(all, one.edits...)
	}
	bare, err := m.size(ctx, p.name, all)
	if err != nil {
		return err
	}
	fmt.Printf("## %s: %.1f MB, without the parts below %.1f MB\n\n| part | the program without it is smaller by | the part adds to a program without parts |\n|---|---|---|\n",
		p.name, megabytes(whole), megabytes(bare))
	for i, one := range p.parts {
		without, err := m.size(ctx, p.name, one.edits)
		if err != nil {
			return fmt.Errorf("without %s: %w", one.name, err)
		}
		var others []edit
		for j, other := range p.parts {
			if i != j {
				others = append(others, other.edits...)
			}
		}
		alone, err := m.size(ctx, p.name, others)
		if err != nil {
			return fmt.Errorf("with %s alone: %w", one.name, err)
		}
		fmt.Printf("| %s | %.1f MB | %.1f MB |\n", one.name, megabytes(whole-without), megabytes(alone-bare))
	}
	fmt.Println()
	return m.modules(ctx, p.name)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// size builds a program with edits, as it is shipped, and returns the size of its file in bytes.
func (m measurement) size(ctx context.Context, name string, edits []edit) (int64, error) {
	overlay, err := m.overlay(edits)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(m.scratch, name)
	if err := m.build(ctx, name, file, append(gobuild.Shipped(os.Getenv("GOFLAGS"), ""), "-overlay="+overlay)); err != nil {
		return 0, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	return info.Size(), nil
}

func (m measurement) build(ctx context.Context, name, file string, flags []string) error {
	return gobuild.Build(ctx, gobuild.Options{Dir: ".", Package: "./cmd/" + name, Output: file, Flags: flags})
}

// overlay writes edited files and the list of them for the go tool, and returns that list.
func (m measurement) overlay(edits []edit) (string, error) {
	replace := map[string]string{}
	for _, one := range edits {
		path, err := filepath.Abs(one.file)
		if err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		if !strings.Contains(string(text), one.from) {
			return "", fmt.Errorf("%s has no %q: the list of parts in this command is out of date", one.file, one.from)
		}
		replace[path] = filepath.Join(m.scratch, strings.ReplaceAll(one.file, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(text), one.from, one.to, 1)), 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	file := filepath.Join(m.scratch, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return file, nil
}

// goTool returns what the go tool prints.
func goTool(ctx context.Context, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "go", arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return string(output), nil
}
