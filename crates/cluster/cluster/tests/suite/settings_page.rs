//! The settings page of the book has the same table as the code.

use latchwork_cluster::ClusterConfig;

#[test]
fn the_page_has_every_setting_as_the_code_has_it() {
    let defaults = ClusterConfig::default();
    let mut table = String::from("| setting | default | also | |\n| --- | --- | --- | --- |\n");
    for setting in ClusterConfig::settings() {
        let also = setting.tries.join(", ");
        let (name, default) = (setting.name, defaults.setting(setting.name).expect("in the list"));
        table += &format!("| `{name}` | {default} | {also} | {} |\n", setting.help);
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/settings.md");
    let text = std::fs::read_to_string(page).expect("the page is in the repository");
    assert!(text.contains(&table), "docs/reference/settings.md should have this table:\n\n{table}");
}
