package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/internal/environment"
)

// An error of a configuration begins with what is wrong, and ends with file and line.
func TestMistake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, file := filepath.Join(dir, "Caddyfile"), filepath.Join(dir, environment.FileName)
	text := "{\n\tpurser {\n\t\tdaily_budget 1x\n\t\t# retain 3d\n\t\thost a {\n\t\t\tmax_payment 2\n\t\t}\n\t\thost b {\n\t\t\tmax_payment 3y\n\t\t}\n\t}\n}\n"
	for path, text := range map[string]string{config: text, file: "\nPURSER_PLANS=maybe\nPURSER_RETAIN=3d\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process := map[string]string{"PURSER_STANDIN": "x"}
	layer := &environment.Layer{
		Lookup: func(name string) (string, bool) { v, set := process[name]; return v, set },
		Set:    func(name, value string) error { process[name] = value; return nil },
		Unset:  func(name string) error { delete(process, name); return nil },
	}
	if _, _, err := layer.Apply([]string{file}); err != nil {
		t.Fatal(err)
	}
	const provision = "loading initial config: loading new config: loading purser app module: provision purser: purser: "
	for given, want := range map[string]string{
		"adapting config using caddyfile: Caddyfile:12: unrecognized global option: x":                                          "unrecognized global option: x, at Caddyfile:12",
		`adapting config using caddyfile: parsing caddyfile tokens for 'purser': unrecognized subdirective "x", at Caddyfile:3`: `unrecognized subdirective "x", at Caddyfile:3`,
		provision + `plans (PURSER_PLANS): "maybe" is neither on nor off`:                                                       `plans (PURSER_PLANS): "maybe" is neither on nor off, at ` + file + ":2",
		provision + `retain (PURSER_RETAIN): "3d" is too short.`:                                                                `retain (PURSER_RETAIN): "3d" is too short, at ` + file + ":3",
		provision + `daily_budget (PURSER_DAILY_BUDGET): "1x" is no amount`:                                                     `daily_budget (PURSER_DAILY_BUDGET): "1x" is no amount, at ` + config + ":3",
		provision + `host b max_payment: "3y" is no amount`:                                                                     `host b max_payment: "3y" is no amount, at ` + config + ":9",
		provision + `standin (PURSER_STANDIN): "x" is neither loopback nor off`:                                                 `standin (PURSER_STANDIN): "x" is neither loopback nor off, at the environment`,
		"loading http app module: provision http: server srv0: setting up route handlers: route 0: loading handler modules: position 0: loading module 'purser_proxy': provision http.handlers.purser_proxy: purser: purser_proxy ports (PURSER_PROXY_PORTS): no": "purser_proxy ports (PURSER_PROXY_PORTS): no",
		"purser app module: start: purser: another program listens: end it (PURSER_RETAIN)": "another program listens: end it (PURSER_RETAIN)",
		"something else": "something else",
	} {
		if got := mistake(errors.New(given), config, layer); got.Error() != want {
			t.Errorf("%s:\n%s\nwant\n%s", given, got, want)
		}
	}
	if mistake(nil, config, layer) != nil {
		t.Error("an error where there is none")
	}
}
