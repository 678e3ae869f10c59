package configsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a config: the words of its file, and those of the files that it names after an @. It does not take a word "wrong", and once it has
// the word "fixed", it keeps it.
type words []string

func (w *words) String() string { return strings.Join(*w, " ") }

func (w *words) fixed() bool { return strings.Contains(w.String(), "fixed") }

var format = Format[words]{
	Provider: "words",
	Read: func(files *Files, data []byte, dir string) (*words, error) {
		config := &words{}
		for word := range strings.FieldsSeq(string(data)) {
			path, named := strings.CutPrefix(word, "@")
			if !named {
				*config = append(*config, word)
				continue
			}
			lists, err := files.List(filepath.Join(dir, path), ".txt", ".list")
			if err != nil {
				return nil, err
			}
			for _, list := range lists {
				more, err := files.Read(list)
				if err != nil {
					return nil, err
				}
				*config = append(*config, strings.Fields(string(more))...)
			}
		}
		if strings.Contains(config.String(), "wrong") {
			return nil, errors.New("a word is wrong")
		}
		return config, nil
	},
	ValidateChange: func(before, after *words) field.ErrorList {
		if before.fixed() && !after.fixed() {
			return field.ErrorList{field.Required(field.NewPath("fixed"), "it stays")}
		}
		return nil
	},
}

// following is a source that follows its files until the test ends, and what it said.
type following struct {
	*Source[words]
	t  *testing.T
	mu sync.Mutex
	// said are configs that subscribers were notified of, "taken", and refusals, in order.
	said []string
}

func follow(t *testing.T, source *Source[words]) *following {
	t.Helper()
	f := &following{Source: source, t: t}
	note := func(text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, text)
	}
	cancel := source.Subscribe(func(config *words) { note(config.String()) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- source.Run(ctx, func(refused error) {
			if refused == nil {
				note("taken")
			} else {
				note(refused.Error())
			}
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
		cancel()
	})
	return f
}

// saysNext waits until the source has said these lines, and no others, since the last call.
func (f *following) saysNext(what string, lines ...string) {
	f.t.Helper()
	want := strings.Join(lines, "\n")
	poll.Until(f.t, what, func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		got := strings.Join(f.said, "\n")
		if got == want {
			f.said = nil
			return nil
		}
		return fmt.Errorf("it says\n%s\nwant\n%s", got, want)
	})
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// replace writes a file beside the other and moves it there, as editors do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".tmp", content)
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

// openFile opens a file with this content in a new folder.
func openFile(t *testing.T, content string) (*Source[words], string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, content)
	source, err := OpenFile(format, path)
	if err != nil {
		t.Fatal(err)
	}
	return source, path
}

func TestFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	write(t, path, "one @lists @single")
	write(t, filepath.Join(dir, "lists/a.txt"), "two")
	write(t, filepath.Join(dir, "lists/b.other"), "never")
	write(t, filepath.Join(dir, "lists/.c.txt"), "never")
	write(t, filepath.Join(dir, "single"), "three")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	source, err := Open(format, file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if got := source.Current().String(); got != "one two three" {
		t.Fatalf("it begins with %q", got)
	}
	f := follow(t, source)
	replace(t, path, "1 @lists @single")
	f.saysNext("the file itself", "1 two three", "taken")
	replace(t, filepath.Join(dir, "lists/d.list"), "four")
	f.saysNext("a new file in a folder", "1 two four three", "taken")
	replace(t, filepath.Join(dir, "single"), "3")
	f.saysNext("a file that is named", "1 two four 3", "taken")
	if err := os.Remove(filepath.Join(dir, "lists/a.txt")); err != nil {
		t.Fatal(err)
	}
	f.saysNext("a file less", "1 four 3", "taken")

	replace(t, filepath.Join(dir, "single"), "wrong")
	f.saysNext("a file that is wrong", "a word is wrong")
	if f.Failure() == nil || f.Reload(t.Context()) == nil || f.Current().String() != "1 four 3" {
		t.Errorf("with a file that is wrong: failure %v, config %s", f.Failure(), f.Current())
	}
	if err := os.Remove(filepath.Join(dir, "lists/d.list")); err != nil {
		t.Fatal(err)
	}
	f.saysNext("a folder without lists", "there is no file *.txt or *.list in this folder")
	replace(t, filepath.Join(dir, "lists/d.list"), "fixed")
	f.saysNext("what is wrong is still read", "a word is wrong")
	replace(t, filepath.Join(dir, "single"), "5")
	f.saysNext("all is right again", "1 fixed 5", "taken")
	replace(t, filepath.Join(dir, "lists/d.list"), "four")
	f.saysNext("a change that a running process does not take", "change of the cloud config that a running process does not take: fixed: Required value: it stays")
	if s := f.Statistics(); s.Applied != 6 || s.Refused != 4 || f.Failure() == nil {
		t.Errorf("%+v, failure %v; want 6 applied, the first one included, and 4 refused", s, f.Failure())
	}
}

// A file that is written anew as it is changes nothing.
func TestTheSameAgainIsNoChange(t *testing.T) {
	source, path := openFile(t, "one")
	before := source.Current()
	replace(t, path, "one")
	if err := source.Reload(t.Context()); err != nil || source.Current() != before || source.Statistics().Applied != 1 {
		t.Errorf("%v, %+v", err, source.Statistics())
	}
}

// The kubelet shows a ConfigMap as symbolic links into a folder that is itself one, which it replaces.
func TestConfigMapsAreFollowed(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, content string) {
		t.Helper()
		folder := filepath.Join(dir, "..v"+version)
		write(t, filepath.Join(folder, "config"), content)
		err := errors.Join(
			os.Symlink(filepath.Base(folder), filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	publish("1", "one")
	path := filepath.Join(dir, "config")
	if err := os.Symlink("..data/config", path); err != nil {
		t.Fatal(err)
	}
	source, err := OpenFile(format, path)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, source)
	for version, content := range []string{"two", "three"} {
		publish(fmt.Sprint(2+version), content)
		f.saysNext("version "+content, content, "taken")
	}
}

// Where folders cannot be watched, changes are found all the same.
func TestFilesAreReadWithoutAWatch(t *testing.T) {
	source, path := openFile(t, "one")
	synctest.Test(t, func(t *testing.T) {
		source.newWatcher = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }
		ctx, cancel := context.WithCancel(t.Context())
		done, reports := make(chan error, 1), []error{}
		go func() { done <- source.Run(ctx, func(err error) { reports = append(reports, err) }) }()
		look := func(content, want string, wantReports int) {
			t.Helper()
			time.Sleep(time.Second)
			replace(t, path, content)
			time.Sleep(pollInterval)
			synctest.Wait()
			if got := source.Current().String(); got != want || len(reports) != wantReports {
				t.Errorf("after %s: %q, reported %v; want %q and %d reports", pollInterval, got, reports, want, wantReports)
			}
		}
		look("two", "two", 1)
		look("two", "two", 1)
		look("wrong", "two", 2)
		look("wrong", "two", 2) // said once
		look("two", "two", 3)
		// Reload, which a refused call leads to, reports what it finds as well.
		replace(t, path, "three")
		if err := source.Reload(ctx); err != nil || source.Current().String() != "three" || len(reports) != 4 {
			t.Errorf("read at once: %s, %v, reported %v", source.Current(), err, reports)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Readers and subscribers may come and go while files change.
func TestSourceIsSafeForConcurrentUse(t *testing.T) {
	source, path := openFile(t, "one")
	follow(t, source)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				cancel := source.Subscribe(func(config *words) { _ = config.String() })
				_, _, _ = source.Current().String(), source.Failure(), source.Statistics()
				_ = source.Reload(t.Context())
				cancel()
			}
		})
	}
	for i := range 50 {
		replace(t, path, fmt.Sprint(i))
	}
	all.Wait()
	if err := source.Reload(t.Context()); err != nil || source.Current().String() != "49" {
		t.Errorf("at last: %s, %v", source.Current(), err)
	}
}

// object is a cloud config of the API server. What is sent to it is what it holds next; an error is that it is gone.
type object struct {
	strings.Reader
	next chan any
}

func (o *object) String() string { return "ConfigMap default/config" }

func (o *object) Watch(ctx context.Context, changed func([]byte, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-o.next:
			switch next := next.(type) {
			case string:
				changed([]byte(next), nil)
			case error:
				if strings.Contains(next.Error(), "forbidden") {
					return next
				}
				changed(nil, next)
			}
		}
	}
}

// A config that is an object is followed, with the files that it names; one that is wrong or gone leaves the one before in force.
func TestAnObjectIsFollowed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "single", "three")
	from := &object{Reader: *strings.NewReader("one @single"), next: make(chan any)}
	source, err := Open(format, from)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, source)
	from.next <- "two @single"
	f.saysNext("another content", "two three", "taken")
	replace(t, "single", "3")
	f.saysNext("a file that it names", "two 3", "taken")
	from.next <- "wrong"
	f.saysNext("a content that is wrong", "a word is wrong")
	from.next <- "two"
	f.saysNext("a content that is right again", "two", "taken")
	from.next <- errors.New("the ConfigMap is deleted")
	f.saysNext("the object is gone", "the ConfigMap is deleted")
	if f.Current().String() != "two" || f.Reload(t.Context()) == nil {
		t.Errorf("the config is %s, failure %v; want the last that was there, and that it is gone", f.Current(), f.Failure())
	}
	from.next <- "two"
	f.saysNext("the content from before the deletion", "two", "taken")
	from.next <- errors.New("forbidden")
	f.saysNext("the watch ends", "watching ConfigMap default/config: forbidden; changes are not seen until this process is started anew")
}

func TestOpenNeedsAConfig(t *testing.T) {
	if _, err := Open(format, nil); err == nil || err.Error() != "provider words: a cloud config is required: set --cloud-config" {
		t.Errorf("%v", err)
	}
	if _, err := Open(format, strings.NewReader("wrong")); err == nil {
		t.Error("a config that is wrong is taken at the start")
	}
	if _, err := OpenFile(format, filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "reading the cloud config") {
		t.Errorf("a file that is not there: %v", err)
	}
}
