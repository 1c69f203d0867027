package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const startHelp = `
Starts purser as 'purser run' does, and returns when it serves or has failed. It is for
trying things out: services are for service managers, which start 'purser run'.

What the server logs is in purser.log, in the data directory. A start that fails shows its
lines.

    $ purser start
    $ purser stop`

const (
	startLog     = "purser.log" // in the data directory
	earlierLog   = ".1"         // behind the name of the log before
	startLogMode = 0o600
	startDirMode = 0o700
	// maxStartLog is the size in bytes from which a start begins the log anew, and keeps the one before.
	maxStartLog = 16 << 20
	// shownLog bounds what a failed start shows of the log, in bytes.
	shownLog = 64 << 10
)

// startServer starts a server that has the log as its output, and nothing of this command's: a program that reads the
// output of this command sees it end with the command. work starts it, with the standard output and error of this process.
func (env *Env) startServer(c *cobra.Command, args []string, work func(*cobra.Command, []string) error) error {
	config, dir, err := env.startsIn(c)
	if err != nil {
		return end(c, 1, fmt.Errorf("start: %w", err))
	}
	log, from, err := openStartLog(dir)
	if err != nil {
		return end(c, 1, fmt.Errorf("start: the log: %w", err))
	}
	defer func() { _ = log.Close() }()
	if err := writingTo(log, func() error { return work(c, args) }); err != nil {
		_, shown := io.Copy(c.ErrOrStderr(), io.NewSectionReader(log, from, shownLog))
		return end(c, 1, errors.Join(fmt.Errorf("start: purser has not started, and says why in %s", log.Name()), shown))
	}
	who := "purser"
	var s adminapi.Status
	if client, err := env.newAdminClient(env.serverAddress(c, config)); err == nil &&
		client.call(c.Context(), http.MethodGet, "/purser/status", nil, &s) == nil && s.Process != 0 {
		who = fmt.Sprintf("purser (pid %d)", s.Process)
	}
	return speak(c, "Started %s. Its log is %s\n", who, log.Name())
}

// startsIn returns what a server is to run, and the data directory of it. The variables of files are in force
// meanwhile only: the server reads them itself, so that a reload can change them.
func (env *Env) startsIn(c *cobra.Command) (config []byte, dir string, err error) {
	files, err := env.files(c)
	if err != nil {
		return nil, "", err
	}
	_, undo, err := env.Layer.Apply(files)
	if errors.Is(err, fs.ErrPermission) && len(env.named) == 0 {
		undo, err = func() {}, nil // a service manager may have read it
	}
	if err != nil {
		return nil, "", err
	}
	defer undo()
	file := env.configFile(c)
	if file == "" {
		return nil, "", env.errNothing()
	}
	env.Caddy.Hush()
	if config, _, _, err = env.Caddy.LoadConfig(file, flag(c, "adapter")); err != nil {
		return nil, "", mistake(err, file, env.Layer)
	}
	var read struct {
		Apps struct {
			Purser struct {
				Dir string `json:"data_dir"`
			} `json:"purser"`
		} `json:"apps"`
	}
	_ = json.Unmarshal(config, &read) // without a directory there is the default
	dir = read.Apps.Purser.Dir
	if strings.Contains(dir, "{") { // a reference that only the server follows
		dir = ""
	}
	dir, err = filepath.Abs(env.path(cmp.Or(dir, env.Getenv(dataDirVariable), env.defaultDataDir())))
	return config, dir, err
}

// openStartLog opens the log in a folder, and returns where what is written next begins.
func openStartLog(dir string) (log *os.File, from int64, err error) {
	if err := os.MkdirAll(dir, startDirMode); err != nil {
		return nil, 0, err
	}
	path := filepath.Join(dir, startLog)
	if info, err := os.Stat(path); err == nil && info.Size() > maxStartLog {
		_ = os.Rename(path, path+earlierLog) // a log that cannot be moved goes on
	}
	log, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, startLogMode)
	if err != nil {
		return nil, 0, err
	}
	if from, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	return log, from, nil
}

// writingTo runs f with a file as the standard output and error of this process, which Caddy gives to its child.
func writingTo(file *os.File, f func() error) error {
	out, errs := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = out, errs }()
	os.Stdout, os.Stderr = file, file
	return f()
}
