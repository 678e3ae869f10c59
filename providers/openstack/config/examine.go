package config

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// Examination is everything about a cloud.conf.
type Examination struct {
	// Errors keep a manager from taking the config; Warnings do not.
	Errors   field.ErrorList
	Warnings []string
	// Files are the files that the config names and that cannot be read here, by the options that name them.
	Files map[string]string
	// Lines are the lines of sections and options, by the fields of errors. An option that is given twice has its last line.
	Lines map[string]int
}

// Examine says everything about the cloud.conf in data, without the cloud. Files that it names are often only where the manager runs: of one
// that cannot be read here nothing is said but its name.
func Examine(data []byte) Examination {
	p := parse(data)
	found := Examination{Errors: p.errs, Files: map[string]string{}, Lines: linesOf(data)}
	config, unknown, files := &p.config, false, configsource.NewFiles()
	if config.Global.UseClouds {
		unknown = found.missing("clouds-file", config.Global.cloudsPath())
		if !unknown {
			if err := config.Global.fromClouds(files); err != nil {
				unknown = true // what clouds.yaml would have had is not missed
				found.Errors = append(found.Errors, field.Invalid(field.NewPath("[Global]", "use-clouds"), true, err.Error()))
			}
		}
	}
	config.complete()
	for _, err := range config.validate() {
		if p.misfits[err.Field] || unknown && err.Type == field.ErrorTypeRequired && strings.HasPrefix(err.Field, "[Global].") {
			continue
		}
		found.Errors = append(found.Errors, err)
	}
	global := &config.Global
	ca := found.missing("ca-file", global.CAFile)
	pair := found.missing("cert-file", global.CertFile)
	if found.missing("key-file", global.KeyFile) || pair {
		global.CertFile, global.KeyFile = "", ""
	}
	if ca {
		global.CAFile = ""
	}
	found.Errors = append(found.Errors, config.readTLS(files)...)
	if len(found.Errors) == 0 {
		config.warn()
	}
	found.Warnings = config.Warnings
	return found
}

// missing notes a file that cannot be read here.
func (e *Examination) missing(option, path string) bool {
	if path == "" {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		e.Files["[Global]."+option] = path
		return true
	}
	_ = file.Close()
	return false
}

var (
	headerLine = regexp.MustCompile(`^\s*\[\s*([A-Za-z][\w.-]*)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]`)
	optionLine = regexp.MustCompile(`^\s*([A-Za-z][\w-]*)\s*(?:=|$|[#;])`)
)

// LooksLikeCloudConf reports whether data is in the format of cloud.conf, and has a section that it may have.
func LooksLikeCloudConf(data []byte) bool {
	found := false
	scan(data, func(_ int, section, _, key string) {
		_, _, known := sectionOf(&Config{}, section)
		found = found || key == "" && known
	})
	return found
}

// HasOption reports whether data, which looks like a cloud.conf, has no option at all or one that the provider knows.
func HasOption(data []byte) bool {
	unknown := map[string]bool{}
	for _, err := range parse(data).errs {
		if strings.HasPrefix(err.Detail, unknownOption) {
			unknown[err.Field] = true
		}
	}
	known, any := false, false
	scan(data, func(_ int, section, sub, key string) {
		_, _, ours := sectionOf(&Config{}, section)
		any = any || key != ""
		known = known || key != "" && ours && !unknown[pathOf(section, sub, key).String()]
	})
	return known || !any
}

// linesOf returns the lines on which sections begin and options stand.
func linesOf(data []byte) map[string]int {
	lines := map[string]int{}
	scan(data, func(line int, section, sub, key string) {
		at := pathOf(section, sub, key).String()
		if _, known := lines[at]; key != "" || !known {
			lines[at] = line
		}
	})
	return lines
}

// scan calls a function with each line that begins a section, whose key is empty, or an option. What parses the file does not say where it is.
func scan(data []byte, each func(line int, section, sub, key string)) {
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	lines.Buffer(nil, len(data)+1)
	section, sub, continued := "", "", false
	for number := 1; lines.Scan(); number++ {
		text := lines.Text()
		within := continued
		continued = strings.HasSuffix(text, `\`)
		if within {
			continue
		}
		if header := headerLine.FindStringSubmatch(text); header != nil {
			section, sub = header[1], header[2]
			each(number, section, sub, "")
		} else if option := optionLine.FindStringSubmatch(text); option != nil && section != "" {
			each(number, section, sub, option[1])
		}
	}
}
