package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/environment"
)

// Caddy's own words in front of an error, which say in which part of the configuration it is.
var (
	caddyWords = regexp.MustCompile(`^(?:loading (?:initial|new) config|loading \S+ app module|\S+ app module|start|provision \S+|` +
		`server \S+|setting up [^:]+|route \d+|loading [^:]* modules|position \d+|loading module '[^']+'|` +
		`adapting config using \S+|parsing caddyfile tokens for '[^']+'|validation|decoding config|purser): `)
	placeInFront = regexp.MustCompile(`^([^\s:]+:\d+)(?: - Error during parsing)?: `)
	placeBehind  = regexp.MustCompile(`(?:,| -) at [^\s]+:\d+`)
	optionName   = regexp.MustCompile(`^((?:(?:[A-Za-z0-9_*.-]|:\d)+ )*[a-z0-9_]+)(?: \(([A-Z0-9_]+)\))?: `)
	variableName = regexp.MustCompile(`\b(?:PURSER|CDP)_[A-Z0-9_]+\b`)
	quotedValue  = regexp.MustCompile(`"([^"]+)"|(\{[^{}"]+\})`)
)

// mistake rewrites an error of a configuration: it begins with what is wrong, and ends with the file
// and the line.
func mistake(err error, config string, layer *environment.Layer) error {
	if err == nil {
		return nil
	}
	text, place := strings.TrimSpace(err.Error()), ""
	for {
		rest := caddyWords.ReplaceAllString(text, "")
		if m := placeInFront.FindStringSubmatch(rest); m != nil {
			rest, place = rest[len(m[0]):], m[1]
		}
		if rest == text {
			break
		}
		text = rest
	}
	switch {
	case placeBehind.MatchString(text):
		return errors.New(text)
	case place == "":
		place = placeOf(text, config, layer)
	}
	if place == "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s, at %s", strings.TrimSuffix(text, "."), place)
}

// placeOf finds where the option of an error is set: in the configuration if it is there, else where
// its variable is.
func placeOf(text, config string, layer *environment.Layer) string {
	if m := optionName.FindStringSubmatch(text); m != nil {
		value := ""
		if q := quotedValue.FindStringSubmatch(text); q != nil {
			value = q[1] + q[2]
		}
		names := strings.Fields(m[1])
		if place := optionPlace(config, names[len(names)-1], value); place != "" {
			return place
		}
	}
	about, _, _ := strings.Cut(text, ": ") // what follows may be advice
	for _, name := range variableName.FindAllString(about, -1) {
		if place := layer.Place(name); place != "" {
			return place
		}
	}
	return ""
}

// optionPlace finds the place that sets an option, with this value if there are several: in a file of
// the configuration or in one that it imports. It is empty if it is not clear which does.
func optionPlace(config, option, value string) string {
	for _, path := range environment.Files(config) {
		shown := path
		if path == filepath.Clean(config) {
			shown = config
		}
		text, err := os.ReadFile(path) //nolint:gosec // the operator's own configuration
		if err != nil {
			continue
		}
		if member, line := optionMember(text, option, value); line > 0 {
			return fmt.Sprintf("%s:%d (%s)", shown, line, member)
		}
		if line := optionLine(string(text), option, value); line > 0 {
			return fmt.Sprintf("%s:%d", shown, line)
		}
	}
	return ""
}

// optionLine returns the line of a Caddyfile that sets an option, with this value if there are several,
// else one that has a reference; 0 if it is not clear which does.
func optionLine(text, option, value string) int {
	first, many, refers, n := 0, false, 0, 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if value != "" && value[0] == '{' && refers == 0 && strings.Contains(line, value) {
			refers = n
		}
		if len(words) < 2 || words[0] != option {
			continue
		}
		if value != "" && strings.Contains(line, value) {
			return n
		}
		many = many || first > 0
		if first == 0 {
			first = n
		}
	}
	switch {
	case refers > 0:
		return refers
	case many:
		return 0
	}
	return first
}

// optionMember returns the path and the line of the member of a configuration in JSON that has a value,
// or holds it in a list; line 0: there is none.
func optionMember(text []byte, option, value string) (path string, line int) {
	if value == "" || !json.Valid(text) {
		return "", 0
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	var at []string // the names and numbers that lead to what comes next
	var walk func() bool
	walk = func() bool {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if word, is := token.(string); is && strings.Contains(word, value) && slices.Contains(at, option) {
			path, line = strings.Join(at, "/"), 1+bytes.Count(text[:decoder.InputOffset()], []byte("\n"))
			return true
		}
		kind, nested := token.(json.Delim)
		if !nested {
			return false
		}
		for n := 0; decoder.More(); n++ {
			name := strconv.Itoa(n)
			if kind == '{' {
				key, _ := decoder.Token() // the text is valid
				name, _ = key.(string)
			}
			at = append(at, name)
			if walk() {
				return true
			}
			at = at[:len(at)-1]
		}
		_, _ = decoder.Token() // the end
		return false
	}
	walk()
	return path, line
}
