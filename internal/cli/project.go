package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// maxManifest bounds what is read of a project's file, in bytes.
const maxManifest = 4 << 20

// ecosystem is a way to make programs, by the files that its projects have. The first one that is there is read.
type ecosystem struct {
	files []string
	run   string // how its programs are run behind purser
	// needs lists what these libraries need to be paid for, by their names in the files.
	needs []libraryNeed
	// needsAll says what all programs need; "": nothing.
	needsAll string
}

type libraryNeed struct{ library, says string }

var ecosystems = []ecosystem{
	{
		files: []string{"package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "package.json"}, run: "purser exec -- node agent.js",
		needs: []libraryNeed{{"undici", "undici takes the proxy with new EnvHttpProxyAgent() as its dispatcher"}},
	},
	{
		files: []string{"uv.lock", "poetry.lock", "Pipfile.lock", "requirements.txt", "pyproject.toml"}, run: "purser exec -- python agent.py",
		needs: []libraryNeed{
			{"aiohttp", "aiohttp takes the proxy with ClientSession(trust_env=True)"},
			{"urllib3", "urllib3 by itself, without requests, takes no proxy of the environment: use purserpay.urllib3"},
		},
	},
	{files: []string{"go.sum", "go.mod"}, run: "purser exec -- go run ."},
	{files: []string{"Cargo.lock", "Cargo.toml"}, run: "purser exec -- cargo run"},
	{files: []string{"Gemfile.lock", "Gemfile"}, run: "purser exec -- bundle exec ruby agent.rb"},
	{files: []string{"composer.lock", "composer.json"}, run: "purser exec -- php agent.php", needsAll: "PHP's own streams (file_get_contents) take no proxy; curl and Guzzle do"},
	{
		files: []string{"pom.xml", "gradle.lockfile", "build.gradle", "build.gradle.kts"}, run: "purser exec -- java -jar agent.jar",
		needsAll: "Java takes the proxy, and needs an Authenticator or PURSER_STANDIN=loopback",
	},
}

// project says what the programs of the folder's project need to be paid for, in lines; none: no project is there.
func (env *Env) project(ctx context.Context) (lines []string) {
	for _, of := range ecosystems {
		name, text := env.manifest(of.files)
		if name == "" {
			continue
		}
		lines = append(lines, "here is "+name+": "+of.run)
		if of.needsAll != "" {
			lines = append(lines, of.needsAll)
		}
		for _, n := range of.needs {
			if regexp.MustCompile(`(?m)(^|["'/\s])` + regexp.QuoteMeta(n.library) + `(["'@=<>~ :,]|$)`).MatchString(text) {
				lines = append(lines, n.says)
			}
		}
		if strings.HasPrefix(of.run, "purser exec -- node") {
			if path, err := env.lookPath(nodeNames[0]); err == nil {
				if warning := env.oldNode(ctx, path, nodeNames[0], env.Environ()); warning != "" {
					lines = append(lines, warning)
				}
			}
		}
	}
	return lines
}

// manifest returns the first file that is there, and the beginning of its text.
func (env *Env) manifest(names []string) (name, text string) {
	for _, name := range names {
		f, err := os.Open(env.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", ""
		}
		all, err := io.ReadAll(io.LimitReader(f, maxManifest))
		if err := errors.Join(err, f.Close()); err != nil {
			return "", ""
		}
		return name, string(all)
	}
	return "", ""
}
