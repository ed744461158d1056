//! Tests the HTML report in a browser, if one is installed.

use std::path::Path;
use std::process::Command;

use cassette_lab::cli::LabCommand;
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

const EXPERIMENT: &str = r#"
name = "small"
repeats = 2
[[engine]]
kind = "noop"
[[configuration]]
name = "one"
[[configuration]]
name = "two with a name that is rather long, as those of matrices are"
[[workload]]
name = "a"
ycsb = "a"
properties = { recordcount = 100 }
[[phase]]
load = "a"
[[phase]]
run = "a"
rate = 200
seconds = 3
"#;

/// Script that reports the layout of the page.
const PROBE: &str = "<script>addEventListener('load', () => { const root = document.documentElement; \
    const small = [...document.querySelectorAll('figure svg')].filter(s => s.getBoundingClientRect().width < 100 && \
    s.checkVisibility()).length; \
    document.title = `wide ${root.scrollWidth} of ${innerWidth}, small ${small}, back \
    ${getComputedStyle(document.body).backgroundColor}`; })</script>";

fn title(browser: &str, page: &Path, profile: &Path, arguments: &[&str]) -> String {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--virtual-time-budget=2000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = text.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.unwrap_or_else(|| panic!("no title: {}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

#[test]
fn a_report_fits_phone_and_desktop_and_follows_the_color_scheme() {
    let Some(browser) = ["chromium", "google-chrome"].into_iter().find(|browser| {
        Command::new(browser).arg("--version").output().is_ok_and(|output| output.status.success())
    }) else {
        // No browser.
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let results = directory.path().join("results");
    let arguments =
        ["lab", "run", "--accept-disturbed", file.to_str().unwrap(), "--results", results.to_str().unwrap()];
    assert!(Cli::parse_from(arguments).command.run().unwrap());
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let mut page = std::fs::read_to_string(run.join("report.html")).unwrap();
    page.push_str(PROBE);
    let probed = directory.path().join("probed.html");
    std::fs::write(&probed, page).unwrap();
    let mut backs = Vec::new();
    for arguments in [
        &["--window-size=500,900"][..],
        &["--window-size=1400,900"],
        &["--window-size=500,900", "--blink-settings=preferredColorScheme=0"],
    ] {
        let title = title(browser, &probed, &directory.path().join("profile"), arguments);
        let mut numbers =
            title.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
        let (wide, room, small) = (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap());
        assert!(wide <= room && small == 0, "{arguments:?}: {title}");
        backs.push(title.split("back ").nth(1).unwrap().to_owned());
    }
    assert_ne!(backs[0], backs[2], "dark and light look the same");
}
