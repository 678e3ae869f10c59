// Package stamp writes the arguments of the linker that tell a program its version, and asks git for what they say. It is apart from the package
// version, which reads them: programs that build others need few libraries that way.
package stamp

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Module is the path of Mooring's module.
const Module = "github.com/mooring-ccm/mooring"

// Stamp is what a program is to say of itself.
type Stamp struct {
	// Release is the version of Mooring.
	Release string
	// Commit is the full ID of the commit, with -dirty behind it if files differed; empty if it is not known.
	Commit string
	// Date is when the commit was made; zero if that is not known.
	Date time.Time
	// Kubernetes is the version of Kubernetes whose libraries are built in, such as v1.36.3; empty if none are.
	Kubernetes string
}

// LinkerFlags are the arguments of the linker that stamp a program. The libraries of Kubernetes get their version with Mooring's behind a
// plus: feature gates read the first part, so it has to be Kubernetes' own.
func (s Stamp) LinkerFlags() string {
	state, clean := "archive", strings.TrimSuffix(s.Commit, "-dirty")
	if s.Commit != "" {
		state = map[bool]string{true: "clean", false: "dirty"}[s.Commit == clean]
	}
	own := Module + "/internal/version."
	flags := []string{"-X " + own + "release=" + s.Release, "-X " + own + "commit=" + s.Commit}
	parts := strings.SplitN(strings.TrimPrefix(s.Kubernetes, "v")+".0", ".", 3)
	libraries := []string{
		"gitVersion=" + GitVersion(s.Kubernetes, s.Release), "gitMajor=" + parts[0], "gitMinor=" + parts[1],
		"gitCommit=" + cmp.Or(clean, "unknown"), "gitTreeState=" + state,
	}
	if !s.Date.IsZero() {
		date := s.Date.UTC().Format(time.RFC3339)
		flags, libraries = append(flags, "-X "+own+"date="+date), append(libraries, "buildDate="+date)
	}
	if s.Kubernetes == "" {
		libraries = nil
	}
	for _, value := range libraries {
		flags = append(flags, "-X k8s.io/component-base/version."+value, "-X k8s.io/client-go/pkg/version."+value)
	}
	return strings.Join(flags, " ")
}

// GitVersion is the version of Kubernetes' libraries with Mooring's version as build metadata (semver.org, rule 10).
func GitVersion(kubernetes, release string) string {
	return kubernetes + "+mooring-" + strings.Map(inBuildMetadata, release)
}

// Kubernetes is the version of Kubernetes of a version of its libraries: those of v1.36.3 have the version v0.36.3. It is empty for others.
func Kubernetes(library string) string {
	rest, found := strings.CutPrefix(strings.TrimSpace(library), "v0.")
	if !found {
		return ""
	}
	return "v1." + rest
}

// inBuildMetadata keeps what may stand behind the plus of a semantic version.
func inBuildMetadata(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}

// Revision is the state of a checkout.
type Revision struct {
	// Name is what git describe makes of tags, or the pseudo-version that Go gives to a commit below no tag.
	Name string
	// Commit is the full ID of the commit, and Date is when it was made.
	Commit string
	Date   time.Time
	// Dirty says that files differ from the commit.
	Dirty bool
}

// Stamp returns what a program that is built from the checkout says of itself.
func (r Revision) Stamp(kubernetes string) Stamp {
	commit := r.Commit
	if r.Dirty {
		commit += "-dirty"
	}
	return Stamp{Release: r.Name, Commit: commit, Date: r.Date, Kubernetes: kubernetes}
}

// RevisionOf asks git for the state of Mooring's checkout that holds a directory. Without git, or in another repository, nothing is found.
func RevisionOf(ctx context.Context, dir string) (Revision, bool) {
	git := func(args ...string) string {
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(output))
	}
	root := git("rev-parse", "--show-toplevel")
	if root == "" || !holdsModule(root) {
		return Revision{}, false
	}
	commit := git("rev-parse", "--verify", "HEAD")
	seconds, err := strconv.ParseInt(git("show", "--no-patch", "--format=%ct", "HEAD"), 10, 64)
	if err != nil || commit == "" {
		return Revision{}, false
	}
	revision := Revision{Commit: commit, Date: time.Unix(seconds, 0).UTC(), Dirty: git("status", "--porcelain", "--untracked-files=no") != ""}
	revision.Name = git("describe", "--tags", "--abbrev=12", "--dirty")
	if revision.Name == "" {
		// As golang.org/x/mod/module.PseudoVersion has it.
		revision.Name = "v0.0.0-" + revision.Date.Format("20060102150405") + "-" + commit[:min(12, len(commit))]
		if revision.Dirty {
			revision.Name += "+dirty"
		}
	}
	return revision, true
}

// holdsModule reports whether a directory is the root of Mooring's module.
func holdsModule(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first) == "module "+Module
}
