package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// A riddle explains a name by a question: "Limit is how many …".
	riddle = regexp.MustCompile(`^\s*// \w+ (is|are) (what|who|how|where|why|those)\b`)

	// An actor has a name: caller, client, key, seller, operator, visitor, recovery.
	actor = regexp.MustCompile(`\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b|(^|[.:;] )[Ww]ho \w+`)

	// A headless sentence begins with a word that stands for its subject: "Those of …".
	headless = regexp.MustCompile(`(^|[.:;?!)] )(What|Those|Of|Such|One) \w+`)

	// A file that a comment names. Its path may begin at any folder.
	citation = regexp.MustCompile(`[\w./-]*\w\.(go|md|mjs|py|sh|sol|yaml|yml)\b`)

	// Texts that the authors know and a reader cannot open.
	abroad = regexp.MustCompile(`\bDESIGN\b|\bfacts/|\bSPEC\b`)
)

// maxHeadless is a ratchet: the number of headless sentences that comments still have.
const maxHeadless = 166

// TestComments holds every comment of the repository to the house style (CONTRIBUTING.md).
func TestComments(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	tracked := trackedFiles(t, root)
	var riddles, actors, sentences, foreign []string
	for _, name := range tracked {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if riddle.MatchString(line) {
				riddles = append(riddles, name+": "+strings.TrimSpace(line))
			}
		}
		functions := map[*ast.CommentGroup]string{} // names, by the comments that begin with them
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				functions[f.Doc] = f.Name.Name
			}
		}
		for _, group := range parsed.Comments {
			at := files.Position(group.Pos()).String()
			text := strings.Join(strings.Fields(group.Text()), " ")
			if m := actor.FindString(text); m != "" {
				actors = append(actors, at+": "+m)
			}
			for _, m := range headless.FindAllString(strings.TrimPrefix(text, functions[group]+" "), -1) {
				sentences = append(sentences, at+": "+m)
			}
			if m := abroad.FindString(text); m != "" {
				foreign = append(foreign, at+": "+m)
			}
			for _, cited := range citation.FindAllString(text, -1) {
				if !known(tracked, cited) {
					foreign = append(foreign, at+": "+cited)
				}
			}
		}
	}
	none(t, "comments that begin \"x is what …\"", riddles)
	none(t, "comments about an actor without a name", actors)
	if n := len(sentences); n > maxHeadless {
		none(t, fmt.Sprintf("sentences that begin headless, of which maxHeadless allows %d", maxHeadless), sentences)
	} else if n < maxHeadless {
		t.Errorf("lower maxHeadless to %d", n)
	}
	none(t, "comments that cite what is not in the repository", foreign)
}

// none fails when there are faults, and lists them all.
func none(t *testing.T, fault string, found []string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%d %s:\n%s", len(found), fault, strings.Join(found, "\n"))
	}
}

// known reports whether a tracked file has this path, or ends with it.
func known(tracked []string, cited string) bool {
	cited = strings.TrimPrefix(cited, "./")
	for _, name := range tracked {
		if name == cited || strings.HasSuffix(name, "/"+cited) {
			return true
		}
	}
	return false
}

// trackedFiles returns the files that git knows in the repository at root.
func trackedFiles(t *testing.T, root string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Fields(string(out))
}
